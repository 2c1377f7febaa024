"""Trains a small network without end and without much work, and writes down every step it makes."""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn
from torch.utils.data import TensorDataset

import elastane.train as et
from benchmarks.train.scripts.networks import learn
from benchmarks.train.scripts.stamping import Stamps

parser = argparse.ArgumentParser()
parser.add_argument("stamps")
parser.add_argument("--pause", type=float, default=0.05, help="seconds of sleep in each step")
options = parser.parse_args()

stamps = Stamps(options.stamps)
x = torch.randn(512, 64, generator=torch.Generator().manual_seed(1))
job = et.init(seed=0)
model = job.model(nn.Linear(64, 10))
opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=1e-2))
data = job.loader(TensorDataset(x, x[:, :10].argmax(1)), batch_size=32)
for _ in job.epochs(1_000_000):
    for inputs, labels in data:
        stamps.begin()
        learn(model, inputs, labels)
        time.sleep(options.pause)
        opt.step()
        stamps.end(job)
