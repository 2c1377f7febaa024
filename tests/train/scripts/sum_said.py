"""Trains two epochs with a summed loss, and says so, or says that it is a mean, or says nothing."""

import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et

said = sys.argv[1]
torch.manual_seed(0)
job = et.init()
model = job.model(nn.Linear(8, 4), loss=None if said == "unsaid" else said)
opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.001))
data = job.loader(TensorDataset(torch.randn(64, 8), torch.arange(64) % 4), batch_size=32)
for _ in job.epochs(2):
    for x, y in data:
        opt.zero_grad()
        F.cross_entropy(model(x), y, reduction="sum").backward()
        opt.step()
