"""The schedule of checkpoints tells of each once, and of a place that does not answer, which ends no training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from elastane.train.errors import PlaceAway
from elastane.train.reports.events import Event, Saved, Warned
from elastane.train.worker.async_save import AsyncSaver, SaveInterval
from elastane.train.worker.checkpoint import FolderCheckpointStore
from elastane.train.worker.checkpoint_schedule import CheckpointSchedule
from elastane.train.worker.replica_state import TrainingState
from elastane.train.worker.state_codec import Packed
from elastane.train.worker.telemetry import Reporter


class AwayAtFirst(FolderCheckpointStore):
    """Does not answer so many times."""

    times = 2

    def save(self, step: int, packed: Packed, info: Mapping[str, Any], generation: int = 0) -> Path:
        if self.times:
            self.times -= 1
            raise PlaceAway(f"cannot save step {step} to s3://b: timed out")
        return super().save(step, packed, info, generation)


def test_a_place_that_is_away_is_told_of_once_per_try_and_the_last_save_has_to_succeed(tmp_path: Path) -> None:
    told: list[Event] = []
    state = TrainingState()
    state.add("weights", lambda: {"w": torch.ones(2)}, lambda _state: None)
    store = AwayAtFirst(tmp_path)
    saver = AsyncSaver(store)
    checkpoints = CheckpointSchedule(saver, SaveInterval(0.0, 1e-9), state, Reporter(told.append, lambda: 1.0))
    for step in (1, 2):
        checkpoints.between_steps(step, 0, 1)
        assert saver._thread is not None
        saver._thread.join()
        checkpoints.tell()
        checkpoints.tell()
    assert [event.text for event in told if isinstance(event, Warned)] == [
        f"cannot save step {step} to s3://b: timed out; training goes on, and saves again later"
        for step in (1, 2)
    ]
    checkpoints.save(3, 0, 1, wait=True)
    assert [event.step for event in told if isinstance(event, Saved)] == [3]
    store.times = 1
    with pytest.raises(PlaceAway):
        checkpoints.save(4, 0, 1, wait=True)
