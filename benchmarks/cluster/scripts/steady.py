"""Trains without end; each sample costs a sleep, so that more workers are faster, and writes down every step."""

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
parser.add_argument("--sample", type=float, default=0.002, help="seconds of sleep per sample")
parser.add_argument("--batch", type=int, default=48, help="of all workers together")
parser.add_argument("--width", type=int, default=64, help="of the hidden layer")
options = parser.parse_args()

stamps = Stamps(options.stamps)
x = torch.randn(4 * options.batch, 64, generator=torch.Generator().manual_seed(1))
job = et.init(seed=0)
model = job.model(nn.Sequential(nn.Linear(64, options.width), nn.ReLU(), nn.Linear(options.width, 10)))
opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9))
data = job.loader(TensorDataset(x, x[:, :10].argmax(1)), batch_size=options.batch)
for _ in job.epochs(1_000_000):
    for inputs, labels in data:
        stamps.begin()
        learn(model, inputs, labels)
        time.sleep(options.sample * len(inputs))
        opt.step()
        stamps.end(job)
