"""Trains its last layer, then all, then all but the last, and writes a hash of every bit of the result.

Behind it: the number of epochs, whether the body was trained, and whether the head stayed as it was frozen.  Every
worker writes its own hash, into ``OUT.RANK``.
"""

import argparse
import hashlib
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("how", choices=["flags", "group"])
parser.add_argument("--epochs", type=int, default=None, help="by default until RUN/enough exists")
parser.add_argument("--rank", type=int, default=None, help="only this worker unfreezes")
parser.add_argument("--pause", type=float, default=0.0)
options = parser.parse_args()

torch.manual_seed(0)
network = nn.Sequential(
    nn.Linear(64, 32), nn.ReLU(), nn.BatchNorm1d(32), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)
)
body, head = list(network[:4].parameters()), list(network[5].parameters())
for parameter in body:
    parameter.requires_grad_(False)


def hash_of(tensors) -> str:
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(torch.as_tensor(tensor).detach().numpy().tobytes())
    return found.hexdigest()


class Frozen:
    """The head as it was frozen: part of the state, so newcomers know it."""

    def __init__(self) -> None:
        self.hash = ""

    def state_dict(self) -> dict:
        return {"hash": self.hash}

    def load_state_dict(self, state: dict) -> None:
        self.hash = state["hash"]


untrained = hash_of(body)
generator = torch.Generator().manual_seed(1)
x = torch.randn(256, 64, generator=generator)
y = (x @ torch.randn(64, 4, generator=generator)).argmax(1)

job = et.init(checkpoint_every=0.2)
model = job.model(network)
first = [{"params": head}] if options.how == "group" else [{"params": head}, {"params": body, "lr": 0.01}]
opt = job.optimizer(torch.optim.AdamW(first, lr=0.003, weight_decay=0.1))
data = job.loader(TensorDataset(x, y), batch_size=32)
frozen = job.register("frozen", Frozen())


def unfreeze(epoch: int) -> None:
    if epoch == 2 and options.rank in (None, job.rank):
        for parameter in body:
            parameter.requires_grad_(True)
        if options.how == "group":
            opt.add_param_group({"params": body, "lr": 0.01})
    if epoch == 5:
        frozen.hash = hash_of(head)
        for parameter in head:
            parameter.requires_grad_(False)


epoch = 0
for epoch in job.epochs(options.epochs or 100_000):
    unfreeze(epoch)
    for inputs, labels in data:
        opt.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        opt.step()
        time.sleep(options.pause)
    if options.epochs is None and job.evaluate((job.run / "enough").exists) and epoch >= 6:
        break

parameters = (parameter for _, parameter in sorted(model.named_parameters()))
states = [value for each in parameters for _, value in sorted(opt.state.get(each, {}).items())]
found = hash_of([*(tensor for _, tensor in sorted(model.state_dict().items())), *states])
trainable = hash_of([*(parameter for _, parameter in sorted(model.named_parameters())), *states])
Path(f"{options.out}.{job.rank}").write_text(trainable)
if job.is_leader:
    kept = hash_of(head) == frozen.hash
    Path(options.out).write_text(f"{found} {epoch + 1} {hash_of(body) != untrained} {kept}")
