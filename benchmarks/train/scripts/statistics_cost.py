"""Trains with gradient statistics switched on and off in turns, and writes the CPU seconds of each step."""

from __future__ import annotations

import argparse
import time
from itertools import islice

import torch

import elastane.train as et
from benchmarks.train.scripts.networks import TASKS, learn, write_result

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--task", default="cnn")
parser.add_argument("--optimizer", default="sgd")
parser.add_argument("--rounds", type=int, default=20)
parser.add_argument("--steps", type=int, default=15, help="of each kind in a round")
options = parser.parse_args()
task = TASKS[options.task]

job = et.init()
model = job.model(task.network())
plain = (
    torch.optim.AdamW(model.parameters(), lr=1e-4)
    if options.optimizer == "adamw"
    else torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
)
opt = job.optimizer(plain)
data = job.loader(task.data(4096), batch_size=task.batch)
batches = (batch for _ in job.epochs(1_000_000) for batch in data)


def steps() -> list[tuple[str, float]]:
    """What each step of a chunk did about statistics, and its CPU seconds in this process."""
    found = []
    began_s = time.process_time()
    for x, y in islice(batches, options.steps):
        learn(model, x, y)
        opt.step()
        ended_s = time.process_time()
        found.append((kind(job.step - 1), ended_s - began_s))
        began_s = ended_s
    return found


def kind(step: int) -> str:
    """Of one worker alone, pairs of steps are measured; the second one costs more."""
    if not statistics.measuring:
        return "plain"
    return "first of a pair" if pacing.stride > 1 and (step + 1) % pacing.stride == 0 else "measured"


def never(step: int, pairs: bool) -> bool:  # noqa: ARG001
    """No step is measured."""
    return False


learn(model, *next(batches))  # now the job knows what it adapts
opt.step()
adaptation = job._session.adaptation
assert adaptation is not None
statistics = adaptation.statistics
pacing = statistics._pacing
due = pacing.due
for _ in range(5):
    steps()  # the first ones are all measured, and the stride is found
rows = []
for number in range(options.rounds):
    row = {}
    for name in sorted(("off", "on"), reverse=bool(number % 2)):
        pacing.due = due if name == "on" else never  # type: ignore[method-assign]
        row[name] = steps()
    rows.append(row)
if job.is_leader:
    write_result(options.out, {"rows": rows, "stride": pacing.stride})
