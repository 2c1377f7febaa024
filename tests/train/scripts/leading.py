"""Lets the leader write a line per epoch, and in the third epoch the first leader dies while it does."""

import os
import signal
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et

folder = Path(sys.argv[1])
torch.manual_seed(0)
job = et.init()
model = job.model(nn.Linear(8, 4))
opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
data = job.loader(TensorDataset(torch.randn(64, 8), torch.arange(64) % 4), batch_size=16)


def write(epoch: int) -> None:
    with (folder / f"epoch{epoch}").open("a") as file:
        file.write(f"{os.environ['ELASTANE_WORKER']}\n")
    if epoch == 2 and not (folder / "killed").exists():
        (folder / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    (folder / f"whole{epoch}").touch()


for epoch in job.epochs(5):
    for x, y in data:
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()
    job.on_leader(write, epoch)
    # The others have waited: what the leader wrote is there.
    assert (folder / f"whole{epoch}").exists()
