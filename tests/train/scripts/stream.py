"""Counts the samples of an iterable data set without a length, in the parameters themselves (see counting.py)."""

import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import IterableDataset

import elastane.train as et

SAMPLES, BATCH, EPOCHS = 192, 16, 2


class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.randperm(SAMPLES).tolist())


job = et.init()
model = job.model(nn.Embedding(SAMPLES, 1, _weight=torch.zeros(SAMPLES, 1)))
opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=1.0))
data = job.loader(Stream(), batch_size=BATCH)
assert data
enough = sys.argv[2:] == ["--until-enough"]
epochs = 0
for epoch in job.epochs(100_000 if enough else EPOCHS):
    for index in data:
        model(index).mean().backward()
        opt.step()
        time.sleep(0.03 if enough else 0.0)
    epochs = epoch + 1
    if enough and job.evaluate((job.run / "enough").exists):
        break
if job.is_leader:
    uses = -model.weight.detach() * BATCH
    Path(sys.argv[1]).write_text(f"{job.step} {float(uses.min()):g} {float(uses.max()):g} {epochs}")
