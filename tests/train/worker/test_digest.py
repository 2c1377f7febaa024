"""Fingerprints find a replica of which one number differs, within a number of steps that is known before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elastane.train.coordinator.settings import Settings
from elastane.train.reports.events import Diverged
from elastane.train.worker import digest as module
from elastane.train.worker.digest import EVERY, digest, windows
from train.running import train

AT_ONCE = 64
TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.uint8, torch.complex64)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", AT_ONCE)


def bytes_of(tensors: Sequence[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 60), st.sampled_from(TYPES)), min_size=1, max_size=12),
    most=st.sampled_from([1, 3, 64]),
    data=st.data(),
)
def test_every_number_is_covered_by_one_of_so_many_fingerprints_in_a_row(
    sizes: list[tuple[int, torch.dtype]], most: int, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "AT_ONCE", AT_ONCE)
        patch.setattr(module, "MOST", most)
        mine = [torch.ones(size, dtype=kind) for size, kind in sizes]
        places = [(i, j) for i, tensor in enumerate(mine) for j in range(len(tensor))]
        if not places:
            return
        i, j = data.draw(st.sampled_from(places))
        theirs = [tensor.clone() for tensor in mine]
        theirs[i][j] = 2
        row = range(windows(bytes_of(mine)))
        first = data.draw(st.integers(0, 1000))
        assert sum(digest(mine, first + n) != digest(theirs, first + n) for n in row) >= 1
        assert digest(mine) != digest(theirs)


def test_what_one_fingerprint_covers_is_bounded_by_bytes(small: None) -> None:
    tensors = [torch.ones(n) for n in (3, 1000, 5, 17)]
    count = windows(bytes_of(tensors))
    covered = [bytes_of(module._chosen(tensors, turn)) for turn in range(count)]
    assert max(covered) <= AT_ONCE + 4  # whole numbers are not cut
    assert sum(covered) == bytes_of(tensors)


def test_what_is_small_is_covered_by_each_fingerprint(small: None) -> None:
    tensors = [torch.ones(4) for _ in range(4)]
    assert all(digest(tensors, turn) == digest(tensors) for turn in range(20))


@pytest.mark.slow
def test_a_replica_of_which_one_number_differs_is_found_within_that_number_of_steps(tmp_path: Path) -> None:
    changed = 5
    outcome = train(
        "drifting.py", tmp_path / "run", str(changed), str(changed + 2 * EVERY), settings=Settings(workers=2)
    )
    assert outcome.ended.outcome == "finished", outcome.ended
    found = [event for event in outcome.events if isinstance(event, Diverged)]
    assert [event.workers for event in found] == [("w2",)]
    assert changed < found[0].step <= changed + EVERY + 1
