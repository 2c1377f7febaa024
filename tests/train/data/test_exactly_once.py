"""Every sample of every pass exactly once per applied block, under any history of resizes, crashes and restarts.

The history is played by a small model of a job: the only thing that survives is the committed position, and
each worker has a source of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import TensorDataset

from elastane.train.data import Source, source_of
from elastane.train.data.blocks import split, unit_spans

PASSES = 2


@dataclass(frozen=True)
class Event:
    """One block: who does it, how large it is, how often it fails, and whether all processes start anew first."""

    workers: int
    batch: int
    crashes: tuple[int, ...]  # workers left after each crash within this block
    restart: bool
    ahead: bool


events = st.builds(
    Event,
    workers=st.integers(1, 5),
    batch=st.integers(1, 17),
    crashes=st.lists(st.integers(1, 5), max_size=2).map(tuple),
    restart=st.booleans(),
    ahead=st.booleans(),
)


@dataclass
class Job:
    """Workers come and go; the position and what was applied stay."""

    make: Callable[[], Source]
    sources: list[Source] = field(default_factory=list)
    applied: list[tuple[int, Any]] = field(default_factory=list)
    pass_index: int = 0
    position: int = 0

    def run(self, history: list[Event]) -> None:
        number = 0
        while self.pass_index < PASSES:
            self.block(history[number % len(history)])
            number += 1

    def block(self, event: Event) -> None:
        if event.restart:
            self.resize(0)
        self.resize(event.workers)
        counts = {source.available(self.position, event.batch) for source in self.sources}
        assert len(counts) == 1, "workers disagree about the end"
        (count,) = counts
        if not count:
            self.pass_index, self.position = self.pass_index + 1, 0
            self.resize(0) if event.restart else self.open()
            return
        for survivors in event.crashes:
            self.attempt(count, event.ahead)  # thrown away
            self.resize(survivors)
        self.applied += [(self.pass_index, sample) for sample in self.attempt(count, event.ahead)]
        self.position += count

    def attempt(self, count: int, ahead: bool) -> list[Any]:
        units = unit_spans(self.position, split(count, len(self.sources)))
        samples: list[Any] = []
        for source, unit in zip(self.sources, units, strict=True):
            if ahead:
                source.expect([unit, (self.position + count, 1)])
            if unit[1]:
                samples += source.fetch(*unit)
        return samples

    def resize(self, workers: int) -> None:
        while len(self.sources) > workers:
            self.sources.pop(0).close()  # the first one, so that its successors take over other units
        while len(self.sources) < workers:
            self.sources.append(self.make())
            self.sources[-1].open(self.pass_index)

    def open(self) -> None:
        for source in self.sources:
            source.open(self.pass_index)


def applied(make: Callable[[], Source], history: list[Event]) -> list[tuple[int, Any]]:
    job = Job(make)
    job.run(history)
    job.resize(0)
    return job.applied


class Lines:
    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.length))


class Seekable(Lines):
    def iter_from(self, pass_index: int, position: int) -> Iterator[int]:
        return iter(range(position, self.length))


class RandomSubset:
    """Draws from the global generator, another subset in every pass."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(self.length)[: self.length // 2 + 1].tolist())


MAKERS: dict[str, Callable[[int], Source]] = {
    "in order": lambda length: source_of(range(length), collate_fn=list),
    "shuffled": lambda length: source_of(range(length), shuffle=True, seed=3, collate_fn=list),
    "stream": lambda length: source_of(Lines(length), collate_fn=list),
    "seekable stream": lambda length: source_of(Seekable(length), collate_fn=list),
}
histories = st.lists(events, min_size=1, max_size=12)


@given(st.sampled_from(sorted(MAKERS)), st.integers(1, 60), histories)
@settings(max_examples=300)
def test_every_sample_of_every_pass_is_applied_exactly_once(
    kind: str, length: int, history: list[Event]
) -> None:
    found = applied(lambda: MAKERS[kind](length), history)
    assert Counter(found) == Counter((p, sample) for p in range(PASSES) for sample in range(length))


@given(st.sampled_from(sorted(MAKERS)), st.integers(1, 60), histories)
def test_the_order_of_samples_does_not_depend_on_the_history(
    kind: str, length: int, history: list[Event]
) -> None:
    quiet = [Event(workers=1, batch=length, crashes=(), restart=False, ahead=False)]
    make = lambda: MAKERS[kind](length)  # noqa: E731
    assert applied(make, history) == applied(make, quiet)


@given(st.integers(1, 60), histories)
def test_a_custom_sampler_gives_each_of_its_positions_exactly_once(length: int, history: list[Event]) -> None:
    found = applied(lambda: source_of(range(length), sampler=RandomSubset(length), collate_fn=list), history)
    for pass_index in range(PASSES):
        samples = [sample for p, sample in found if p == pass_index]
        assert len(samples) == len(set(samples)) == length // 2 + 1


@pytest.mark.slow
@given(st.integers(1, 25), st.lists(events, min_size=1, max_size=5))
@settings(max_examples=15)
def test_loader_processes_change_nothing(length: int, history: list[Event]) -> None:
    def make(num_workers: int) -> Source:
        dataset = TensorDataset(torch.arange(length))
        return source_of(
            dataset, shuffle=True, num_workers=num_workers, collate_fn=lambda rows: [int(x) for (x,) in rows]
        )

    assert applied(lambda: make(1), history) == applied(lambda: make(0), history)
