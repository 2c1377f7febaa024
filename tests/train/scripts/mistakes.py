"""One mistake after the other, chosen by name."""

import os
import sys

import torch
from torch import nn
from torch.utils.data import TensorDataset

import elastane.train as et

mistake = sys.argv[1]
second = os.environ.get("ELASTANE_WORKER") == "w2"
job = et.init()
width = 4 if mistake == "uneven" and second else 3
model = job.model(nn.Sequential(nn.Linear(64, width)))
opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
samples = TensorDataset(torch.randn(128, 64), torch.zeros(128, dtype=torch.long))
data = job.loader(samples, batch_size=4096 if mistake == "large_batch" else 16)
if mistake == "twice":
    job.loader(samples, batch_size=16)
for epoch in job.epochs(10):
    for x, _ in data:
        loss = model(x).sum()
        if mistake == "random_op":
            loss = loss + torch.kthvalue(model(x), 1).values.sum()
            index = torch.zeros(3, dtype=torch.long)
            target = torch.zeros(4, requires_grad=True)
            torch.bincount(index, torch.ones(3)).sum()
            loss = loss + target.put(index, torch.ones(3)).sum()
        loss.backward()
        if mistake == "raises" and epoch == 1:
            raise ValueError("no luck")
        if mistake == "no_step":
            continue
        opt.step()
    if mistake == "early_exit" and second and epoch == 2:
        sys.exit(0)
