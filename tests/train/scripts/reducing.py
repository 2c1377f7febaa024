"""Reduces figures over the workers in the loop and between epochs; writes what came out, one line per epoch.

Each line: the sum of all samples' numbers seen in the epoch, the mean of the steps' means, the largest number, and
whether all that was reduced between the loops was what it should be, the workers' figures being equal.
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
parser.add_argument("--epochs", type=int, default=None, help="by default until RUN/enough exists")
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--uneven", action="store_true", help="workers that are not the leader give another shape")
options = parser.parse_args()


class Book:
    """What was found so far; part of the state, so newcomers have it too."""

    def __init__(self) -> None:
        self.lines: list[list[float]] = []
        self.now = [0.0, 0.0, 0.0]

    def state_dict(self) -> dict:
        return {"lines": [list(line) for line in self.lines], "now": list(self.now)}

    def load_state_dict(self, state: dict) -> None:
        self.lines, self.now = [list(line) for line in state["lines"]], list(state["now"])


job = et.init(checkpoint_every=0.2)
torch.manual_seed(0)
model = job.model(nn.Linear(1, 1))
opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=1e-6))
data = job.loader(TensorDataset(torch.arange(1.0, 104.0)[:, None]), batch_size=16)
book = Book()
job.register("book", book)
begun = job.all_reduce(job.world, "max")
for epoch in job.epochs(options.epochs or 100_000):
    wrong = job.all_reduce(torch.tensor([[1, job.rank]]), "sum").tolist() == [[0, 0]]
    for (x,) in data:
        model(x).square().mean().backward()
        opt.step()
        total = job.all_reduce(x.sum(), "sum")
        mean = job.all_reduce(x.mean())
        largest = job.all_reduce(x.max(), "max")
        if job.stepped and not job.replaying:
            book.now = [book.now[0] + float(total), book.now[1] + float(mean), max(book.now[2], float(largest))]
        time.sleep(options.pause)
    if options.uneven:
        job.all_reduce(torch.zeros(2 if job.is_leader else 3))
    same = job.all_reduce(float(epoch), "mean") == epoch
    now = torch.tensor(book.now)
    lowest, highest = job.all_reduce(now, "min"), job.all_reduce(now, "max")
    if len(book.lines) == epoch:
        book.lines.append([*book.now, float(same and not wrong and torch.equal(lowest, highest))])
        book.now = [0.0, 0.0, 0.0]
    if options.epochs is None and epoch >= 5 and job.evaluate((job.run / "enough").exists):
        break
if job.is_leader:
    Path(options.out).write_text("\n".join(" ".join(map(repr, line)) for line in book.lines))
