"""Trains until it is stopped and writes down when each step began and ended."""

from __future__ import annotations

import argparse
import importlib
import signal

import torch

import elastane.train as et
from benchmarks.train.scripts.networks import TASKS, learn
from benchmarks.train.scripts.stamping import Stamps

SAMPLES = 8192

parser = argparse.ArgumentParser()
parser.add_argument("stamps")
parser.add_argument("--task", default="small")
parser.add_argument("--imports", default="", help="modules that the script needs besides, as real ones do")
parser.add_argument("--checkpoint-every", type=float, default=3600.0)
parser.add_argument("--deaf", action="store_true", help="do not catch SIGTERM, as scripts for torchrun do not")
options = parser.parse_args()

stamps = Stamps(options.stamps)
for module in filter(None, options.imports.split(",")):
    importlib.import_module(module)
task = TASKS[options.task]
job = et.init(checkpoint_every=options.checkpoint_every)
if options.deaf:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
model = job.model(task.network())
opt = job.optimizer(torch.optim.AdamW(model.parameters(), lr=1e-4))
data = job.loader(task.data(SAMPLES), batch_size=task.batch)
stamps.note("ready")
for _ in job.epochs(1_000_000):
    for x, y in data:
        stamps.begin()
        learn(model, x, y)
        opt.step()
        stamps.end(job)
