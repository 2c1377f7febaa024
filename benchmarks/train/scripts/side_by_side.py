"""The same training with Elastane and with plain DistributedDataParallel, in turns, in the same processes."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import elastane.train as et
from benchmarks.train.scripts.networks import TASKS, learn, write_result

SAMPLES = 4096

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--task", default="cnn")
parser.add_argument("--rounds", type=int, default=20)
parser.add_argument("--steps", type=int, default=10, help="of each kind in a round")
options = parser.parse_args()
task = TASKS[options.task]

job = et.init()
model = job.model(task.network())
opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9))
data = job.loader(task.data(SAMPLES), batch_size=task.batch)
own = (batch for _ in job.epochs(1_000_000) for batch in data)


def elastane_steps(count: int) -> None:
    """Some steps of this library."""
    for x, y in islice(own, count):
        opt.zero_grad()
        learn(model, x, y)
        opt.step()


elastane_steps(1)  # from here on the ranks are known
dist.init_process_group("gloo", f"file://{options.out}.store", rank=job.rank, world_size=job.world)
plain = DistributedDataParallel(task.network())
plain_opt = torch.optim.SGD(plain.parameters(), lr=0.01, momentum=0.9)
plain_data: DataLoader[Any] = DataLoader(
    dataset := task.data(SAMPLES),
    batch_size=task.batch // job.world,
    sampler=DistributedSampler(dataset),
    drop_last=True,
)


def passes() -> Iterator[Any]:
    """The plain loader again and again."""
    while True:
        yield from plain_data


plain_batches = passes()


def plain_steps(count: int) -> None:
    """The same steps without this library."""
    for x, y in islice(plain_batches, count):
        plain_opt.zero_grad()
        learn(plain, x, y)
        plain_opt.step()


def seconds(steps: Callable[[int], None]) -> float:
    """What a number of steps takes, from a common beginning."""
    dist.barrier()
    began_s = time.perf_counter()
    steps(options.steps)
    return time.perf_counter() - began_s


for warm in (elastane_steps, plain_steps):
    warm(options.steps)
rows = []
for number in range(options.rounds):
    kinds = {"elastane": elastane_steps, "ddp": plain_steps}
    # Whoever comes second may find caches warmer: take turns.
    rows.append({name: seconds(kinds[name]) for name in sorted(kinds, reverse=bool(number % 2))})
if job.is_leader:
    write_result(options.out, rows)
dist.barrier()
