"""Accumulates gradients over four batches, in one of the ways scripts do; writes the parameters it ends with."""

import argparse
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--batches", type=int, default=4, help="per step; the batch is 32 over this")
parser.add_argument("--every", action="store_true", help="call opt.step() for every batch")
parser.add_argument("--epochs", type=int, default=None, help="by default until RUN/enough exists")
parser.add_argument("--pause", type=float, default=0.0)
options = parser.parse_args()

generator = torch.Generator().manual_seed(1)
x = torch.randn(140, 8, generator=generator)  # the last step of an epoch has less than two of four batches
y = torch.randint(0, 3, (140,), generator=generator)

job = et.init(checkpoint_every=0.2)
torch.manual_seed(0)
model = job.model(nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3)))
opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), max_grad_norm=1.0)
schedule = job.scheduler(torch.optim.lr_scheduler.StepLR(opt, 10, 0.9))
data = job.loader(TensorDataset(x, y), batch_size=32 // options.batches, shuffle=False)
job.accumulate(options.batches)
epoch = 0
for epoch in job.epochs(options.epochs or 100_000):
    for inputs, labels in data:
        loss = F.cross_entropy(model(inputs), labels) / options.batches
        loss.backward()
        if options.every or job.step_due:
            opt.step()
            schedule.step()
            opt.zero_grad()
        time.sleep(options.pause)
    if options.epochs is None and epoch >= 2 and job.evaluate((job.run / "enough").exists):
        break
if job.is_leader:
    values = torch.cat([p.detach().reshape(-1) for p in model.parameters()]).tolist()
    Path(options.out).write_text(" ".join(map(repr, [epoch + 1, job.step, *values])))
