"""Counts how often each sample was trained on, in the parameters themselves.

The loss is the mean of the batch's own weights, so one step takes exactly 1/64 from the weight of each of its 64
samples: after training, each weight is minus the number of times its sample was used, over 64.  What is written is
that number per epoch: 1, if all is well.  Training ends when RUN/enough exists, so that tests need not know how long
this machine takes.
"""

import argparse
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

import elastane.train as et

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--epochs", type=int, default=3, help="at least so many")
parser.add_argument("--pause", type=float, default=0.0)
options = parser.parse_args()

SAMPLES, BATCH = 1024, 64


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(SAMPLES))

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        return self.weight[index].mean()


job = et.init(checkpoint_every=0.2)
model = job.model(Counter())
opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=1.0))
data = job.loader(TensorDataset(torch.arange(SAMPLES)), batch_size=BATCH)
for epoch in job.epochs(100_000):
    for (index,) in data:
        model(index).backward()
        opt.step()
        time.sleep(options.pause)
    if job.evaluate((job.run / "enough").exists) and epoch + 1 >= options.epochs:
        break
if job.is_leader:
    counts = (-model.weight.detach() * BATCH / (epoch + 1)).tolist()
    Path(options.out).write_text(" ".join(f"{count:g}" for count in counts))
