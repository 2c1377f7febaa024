"""Trains a network with everything random in it for some steps, and writes a hash of every bit of the result."""

from __future__ import annotations

import argparse
import hashlib
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

import elastane.train as et
from benchmarks.train.scripts.networks import learn
from benchmarks.train.scripts.stamping import Stamps

SAMPLES, BATCH = 512, 32

parser = argparse.ArgumentParser()
parser.add_argument("stamps")
parser.add_argument("out")
parser.add_argument("--epochs", type=int, default=60)
parser.add_argument("--pause", type=float, default=0.0, help="seconds of sleep in each unit")
options = parser.parse_args()

stamps = Stamps(options.stamps)
torch.manual_seed(0)
network = nn.Sequential(
    nn.Unflatten(1, (1, 8, 8)),
    nn.Conv2d(1, 16, 3),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.Dropout(0.2),
    nn.Flatten(),
    nn.Linear(16 * 36, 10),
)
x = torch.randn(SAMPLES, 64, generator=torch.Generator().manual_seed(1))
y = x[:, :10].argmax(1)

job = et.init("consistent", virtual=6)
model = job.model(network)
opt = job.optimizer(torch.optim.AdamW(model.parameters(), lr=1e-3), max_grad_norm=1.0)
schedule = job.scheduler(torch.optim.lr_scheduler.CosineAnnealingLR(opt, 500))
data = job.loader(TensorDataset(x, y), batch_size=BATCH)
for _ in job.epochs(options.epochs):
    for inputs, labels in data:
        stamps.begin()
        learn(model, inputs, labels)
        time.sleep(options.pause)
        opt.step()
        schedule.step()
        stamps.end(job)

digest = hashlib.sha256()
for name in sorted(model.state_dict()):
    digest.update(model.state_dict()[name].numpy().tobytes())
for state in opt.state.values():
    for key in sorted(state):
        digest.update(torch.as_tensor(state[key]).numpy().tobytes())
if job.is_leader:
    Path(options.out).write_text(f"{digest.hexdigest()} {job.step}")
