"""What equal bits cost: ordered reduction against plain gradient accumulation and one all-reduce.

Both variants run the same micro-batches in the same processes, in turn.  CPU seconds are taken of each phase
of a step (a unit, the reduction, the optimizer); the least of many rounds counts, so that other work on the
machine matters little, and is summed over phases and workers.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch._C._distributed_c10d import FileStore

from benchmarks.figures import Figures
from elastane.train.reduce.contract import Collective, Shares
from elastane.train.reduce.gradients import GradientLayout
from elastane.train.reduce.malloc_tuning import keep_freed_memory
from elastane.train.reduce.ordered import OrderedReducer
from elastane.train.worker.group import Group

VIRTUAL = 8
MICRO_BATCH = 8
WORKERS = (1, 2, 4)

Variant = Literal["plain", "ordered"]


class Transformer(nn.Module):
    """Characters in, the next character out."""

    def __init__(self, width: int = 256, depth: int = 3, symbols: int = 256) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.1, batch_first=True, norm_first=True)
        self.embed = nn.Embedding(symbols, width)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, symbols)

    def forward(self, text: Tensor) -> Tensor:
        """Scores of every symbol at every place."""
        scores: Tensor = self.head(self.body(self.embed(text)))
        return scores.flatten(0, 1)


def _convolution(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, 3, stride, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]


def _cnn() -> nn.Module:
    return nn.Sequential(
        *_convolution(3, 32, 1),
        *_convolution(32, 64, 2),
        *_convolution(64, 128, 2),
        *_convolution(128, 128, 1),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(512, 10),
    )


def _mlp() -> nn.Module:
    hidden = [nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(1024, 10))


@dataclass(frozen=True)
class Task:
    """A model, one micro-batch for it, and how much overhead is allowed."""

    name: str
    model: Callable[[], nn.Module]
    inputs: Callable[[], Tensor]
    classes: int
    gate: float | None
    rounds: int


TASKS = (
    Task("CNN", _cnn, lambda: torch.randn(MICRO_BATCH, 3, 16, 16), 10, 0.20, 40),
    Task("transformer", Transformer, lambda: torch.randint(0, 256, (MICRO_BATCH, 16)), 256, 0.13, 12),
    Task("MLP", _mlp, lambda: torch.randn(MICRO_BATCH, 784), 10, None, 40),
)


class _StoreExchange:
    """Addresses through a file."""

    def __init__(self, path: Path, world: int) -> None:
        self._store = FileStore(str(path), world)

    def put(self, rank: int, data: bytes) -> None:
        self._store.set(str(rank), data.hex())

    def get(self, rank: int, timeout_s: float) -> bytes:  # noqa: ARG002
        return bytes.fromhex(self._store.get(str(rank)).decode())


class _Worker:
    """One worker with both ways to make a step."""

    def __init__(self, task: Task, rank: int, group: Collective | None) -> None:
        torch.manual_seed(0)
        self._model, self._inputs = task.model(), task.inputs()
        self._targets = torch.randint(0, task.classes, (len(self._model(self._inputs)),))
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.01, momentum=0.9)
        self._layout = GradientLayout([list(self._model.parameters())])
        self._vector = self._layout.vector()
        self._reducer = OrderedReducer(self._layout, VIRTUAL)
        self._group, self._rank = group, rank
        world = group.world if group is not None else 1
        self._shares = Shares((MICRO_BATCH,) * VIRTUAL, tuple(u * world // VIRTUAL for u in range(VIRTUAL)))
        self._units = self._shares.owned_by(rank)

    def _backward(self) -> None:
        F.cross_entropy(self._model(self._inputs), self._targets).backward()  # type: ignore[no-untyped-call]

    def plain(self) -> Iterator[None]:
        """Autograd accumulates; one all-reduce."""
        self._optimizer.zero_grad()
        for _ in self._units:
            self._backward()
            yield
        if self._group is None:
            torch._foreach_div_([p.grad for p in self._layout.parameters if p.grad is not None], VIRTUAL)
        else:
            self._layout.collect(self._vector)
            self._group.all_reduce(self._vector.gradients)
            self._vector.gradients.div_(VIRTUAL)
            self._layout.publish(self._vector)
        yield
        self._optimizer.step()
        yield

    def ordered(self) -> Iterator[None]:
        """Every unit apart; the sum in the order of the tree."""
        self._reducer.begin(self._shares, self._rank, again=False)
        for unit in self._units:
            self._reducer.start(unit)
            self._backward()
            self._reducer.finish(unit)
            yield
        self._layout.publish(self._reducer.reduce(self._group, 0))
        yield
        self._optimizer.step()
        yield

    def measure(self, rounds: int) -> dict[Variant, float]:
        """CPU seconds of a step, one step of each variant per round."""
        steps: dict[Variant, Callable[[], Iterator[None]]] = {"plain": self.plain, "ordered": self.ordered}
        laps: dict[Variant, list[list[float]]] = {"plain": [], "ordered": []}
        for number in range(rounds):
            # Whoever comes second may find caches warmer: take turns.
            for variant in sorted(steps, reverse=bool(number % 2)):
                laps[variant].append(_laps(steps[variant]()))
        return {variant: sum(map(min, zip(*taken, strict=True))) for variant, taken in laps.items()}


def _laps(phases: Iterator[None]) -> list[float]:
    times = [time.process_time()]
    times.extend(time.process_time() for _ in phases)
    return [after - before for before, after in pairwise(times)]


def _work(task: Task, rank: int, world: int, path: Path, out: Queue[dict[Variant, float]]) -> None:
    torch.set_num_threads(1)
    keep_freed_memory()
    group = Group(rank, world, _StoreExchange(path, world)) if world > 1 else None
    out.put(_Worker(task, rank, group).measure(task.rounds))


def _compare(task: Task, world: int) -> Mapping[Variant, float]:
    """CPU seconds of one step, summed over workers."""
    context = multiprocessing.get_context("fork")
    out: Queue[dict[Variant, float]] = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "addresses"
        processes = [
            context.Process(target=_work, args=(task, rank, world, path, out)) for rank in range(world)
        ]
        for process in processes:
            process.start()
        found = [out.get() for _ in processes]
        for process in processes:
            process.join()
    variants: tuple[Variant, ...] = ("plain", "ordered")
    return {variant: sum(seconds[variant] for seconds in found) for variant in variants}


def main() -> None:
    """Print every figure; exit non-zero if a gate is missed."""
    figures = Figures("train_reduce")
    for task in TASKS:
        size = sum(p.numel() for p in task.model().parameters())
        figures.note(f"{task.name}: {size / 1e6:.2f} M parameters, {VIRTUAL} units of {MICRO_BATCH} samples")
        for world in WORKERS:
            cpu = _compare(task, world)
            overhead = cpu["ordered"] / cpu["plain"] - 1.0
            figures.note(
                f"{world} worker(s): {cpu['plain'] * 1e3:.1f} -> {cpu['ordered'] * 1e3:.1f} CPU ms a step"
            )
            name = f"{task.name}, {world} worker(s): overhead of ordered reduction"
            if task.gate is not None:
                figures.at_most(name, overhead, task.gate, "gate")
            figures.at_most(name, overhead, 0.10, "goal")
    figures.finish()


if __name__ == "__main__":
    main()
