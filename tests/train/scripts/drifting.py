"""Forty layers; in the worker of rank 1 one number of them becomes another.  Some steps later the training ends."""

import sys

import torch
from torch import nn
from torch.utils.data import TensorDataset

import elastane.train as et

AT, STEPS = int(sys.argv[1]), int(sys.argv[2])

job = et.init()
model = job.model(nn.Sequential(*(nn.Linear(3, 3) for _ in range(40))))
opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.01))
data = job.loader(TensorDataset(torch.zeros(4 * STEPS, 3)), batch_size=4)
for _ in job.epochs(1):
    for (x,) in data:
        if job.step == AT and job.rank == 1:
            with torch.no_grad():
                model[17].bias[2] += 0.5
        model(x).mean().backward()
        opt.step()
