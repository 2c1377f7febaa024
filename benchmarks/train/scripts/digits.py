"""A small convolutional network on the digits that ship with scikit-learn; writes how it went as JSON."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import TensorDataset

import elastane.train as et
from benchmarks.train.scripts.networks import learn
from elastane.train.adapt.rules import Fixed

TEST = 297

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--rate", type=float, default=0.05)
parser.add_argument("--momentum", type=float, default=0.9)
parser.add_argument("--total", type=int, default=0, help="in adaptive mode, this batch instead of the best one")
parser.add_argument("--per-worker", type=int, default=None, help="what a worker may hold; more is accumulated")
parser.add_argument(
    "--target", type=float, default=0.0, help="stop once the loss on all training data is below"
)
parser.add_argument("--look-every", type=int, default=512, help="samples between two looks at that loss")
options = parser.parse_args()

digits = load_digits()
order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(123))
images = (torch.tensor(digits.data, dtype=torch.float32) / 16.0).view(-1, 1, 8, 8)[order]
labels = torch.tensor(digits.target)[order]
inputs, targets = images[TEST:], labels[TEST:]

rule = Fixed(options.total) if options.total else None
job = et.init(seed=options.seed, batch_rule=rule)
torch.manual_seed(options.seed)
body = [nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten()]
model = job.model(nn.Sequential(*body, nn.Linear(32 * 16, 64), nn.ReLU(), nn.Linear(64, 10)))
opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=options.rate, momentum=options.momentum))
data = job.loader(
    TensorDataset(inputs, targets),
    batch_size=options.batch,
    max_batch_size=32 * options.batch,
    max_per_worker=options.per_worker,
)


@torch.no_grad()
def loss_on(x: Tensor, y: Tensor) -> float:
    """The mean loss."""
    return float(F.cross_entropy(model(x), y))


@torch.no_grad()
def accuracy() -> float:
    """On data that was not trained on."""
    return float((model(images[:TEST]).argmax(1) == labels[:TEST]).float().mean())


samples, looked, curve, batches = 0, 0, [], []
reached = False
for _ in job.epochs(options.epochs):
    for x, y in data:
        loss = learn(model, x, y)
        opt.step()
        job.report(loss=loss)
        samples += len(x)
        batches.append(job.batch_size)
        if options.target and samples >= looked + options.look_every and job.stepped:
            looked = samples
            curve.append([samples, loss_on(inputs, targets)])
            reached = curve[-1][1] < options.target
        if reached:
            break
    if reached:
        break
result = {"accuracy": accuracy(), "curve": curve, "steps": job.step, "batches": sorted(set(batches))}
if job.is_leader:
    Path(options.out).write_text(json.dumps(result))
