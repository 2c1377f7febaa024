"""The next batch is fetched early on a device, and a wrong guess never reaches the script."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from torch.utils.data import TensorDataset

from elastane.train.data import source_of
from elastane.train.device import Device
from elastane.train.script.batches_ahead import BatchesAhead

on_late = pytest.mark.parametrize("fakegpu", ["late"], indirect=True)
GPU = Device("fakegpu", 0)


class Watched:
    """A source that remembers what was fetched from it."""

    def __init__(self) -> None:
        self._source = source_of(TensorDataset(torch.arange(12.0)), shuffle=False)
        self._source.open(0)
        self.fetched: list[tuple[int, int]] = []

    def expect(self, spans: list[tuple[int, int]]) -> None:
        self._source.expect(spans)

    def fetch(self, start: int, count: int) -> object:
        self.fetched.append((start, count))
        return self._source.fetch(start, count)


def values(batch: object) -> list[float]:
    (tensor,) = batch  # type: ignore[misc]
    assert tensor.device.type == "fakegpu"
    return tensor.cpu().tolist()


@on_late
def test_the_next_batch_is_fetched_while_the_host_waits(fakegpu: ModuleType) -> None:
    source = Watched()
    ahead = BatchesAhead(source, GPU)  # type: ignore[arg-type]
    ahead.expect([(0, 4), (4, 4)], 12)
    assert values(ahead.fetch((0, 4))) == [0.0, 1.0, 2.0, 3.0]
    ahead.look_ahead()
    ahead.look_ahead()
    assert source.fetched == [(0, 4), (4, 4)]
    ahead.expect([(4, 4), (8, 4)], 12)
    assert values(ahead.fetch((4, 4))) == [4.0, 5.0, 6.0, 7.0]
    assert source.fetched == [(0, 4), (4, 4)]


@on_late
def test_a_wrong_guess_is_dropped(fakegpu: ModuleType) -> None:
    source = Watched()
    ahead = BatchesAhead(source, GPU)  # type: ignore[arg-type]
    ahead.expect([(0, 4), (4, 4)], 12)
    ahead.fetch((0, 4))
    ahead.look_ahead()
    ahead.expect([(4, 2), (6, 2)], 12)  # members have changed
    assert values(ahead.fetch((4, 2))) == [4.0, 5.0]
    ahead.look_ahead()
    ahead.forget()  # the pass is over
    assert values(ahead.fetch((6, 2))) == [6.0, 7.0]
    assert source.fetched == [(0, 4), (4, 4), (4, 2), (6, 2), (6, 2)]


@on_late
def test_nothing_is_fetched_beyond_the_end_nor_of_an_endless_source(fakegpu: ModuleType) -> None:
    source = Watched()
    ahead = BatchesAhead(source, GPU)  # type: ignore[arg-type]
    for end in (8, None):
        ahead.expect([(8, 4)], end)
        ahead.look_ahead()
    assert source.fetched == []


def test_on_a_cpu_nothing_is_fetched_early() -> None:
    source = Watched()
    ahead = BatchesAhead(source, Device())  # type: ignore[arg-type]
    ahead.expect([(0, 4), (4, 4)], 12)
    ahead.look_ahead()
    assert source.fetched == []
