"""Trains with PyTorch's own clipping, imported by name, and writes the parameters it ends with."""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import TensorDataset

import elastane.train as et

generator = torch.Generator().manual_seed(1)
x = torch.randn(60, 8, generator=generator)
y = torch.randint(0, 3, (60,), generator=generator)
torch.manual_seed(0)
job = et.init()
model = job.model(nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3)))
opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9))
data = job.loader(TensorDataset(x, y), batch_size=16, shuffle=False)
for _ in job.epochs(5):
    for inputs, labels in data:
        opt.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        clip_grad_norm_(model.parameters(), 0.05)
        torch.nn.utils.clip_grad_value_(model[2].parameters(), 0.01)
        opt.step()
if job.is_leader:
    values = torch.cat([p.detach().reshape(-1) for p in model.parameters()]).tolist()
    Path(sys.argv[1]).write_text(" ".join(map(str, values)))
