"""Where a job's checkpoints lie: in its run unless another place is named, and what lay elsewhere is gone on from."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from elastane.train.errors import TrainError
from elastane.train.worker.checkpoint import FolderCheckpointStore
from elastane.train.worker.checkpoint_store import (
    CheckpointStore,
    MovedCheckpointStore,
    highest_stored,
    open_checkpoint_store,
)
from elastane.train.worker.state_codec import pack, unpack


def save(store: CheckpointStore, step: int, generation: int) -> None:
    store.save(step, pack({"x": torch.full((2,), float(step))}), {}, generation)


def step_of(store: CheckpointStore) -> int:
    loaded = store.load()
    assert loaded is not None
    assert unpack(loaded.packed)["x"].tolist() == [float(loaded.step)] * 2
    return loaded.step


@pytest.mark.parametrize("environment", [{}, {"ELASTANE_CHECKPOINTS": ""}])
def test_without_a_word_everything_is_as_it_always_was(tmp_path: Path, environment: dict[str, str]) -> None:
    store = open_checkpoint_store(tmp_path, environment)
    assert isinstance(store, FolderCheckpointStore)
    save(store, 3, 1)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-000000000003"]


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_another_place_is_used_alone_and_found_again(tmp_path: Path, prefix: str) -> None:
    environment = {"ELASTANE_CHECKPOINTS": f"{prefix}{tmp_path}/place"}
    store = open_checkpoint_store(tmp_path / "run", environment)
    assert store.load() is None
    store.own(2)
    save(store, 3, 2)
    assert not (tmp_path / "run").exists()
    again = open_checkpoint_store(tmp_path / "other machine", environment)
    assert again.highest() == 2
    assert step_of(again) == 3


def test_a_run_that_moves_goes_on_from_its_folder(tmp_path: Path) -> None:
    save(FolderCheckpointStore(tmp_path / "run" / "checkpoints"), 7, 4)
    store = open_checkpoint_store(tmp_path / "run", {"ELASTANE_CHECKPOINTS": f"{tmp_path}/place"})
    assert isinstance(store, MovedCheckpointStore)
    assert store.highest() == 4
    store.own(5)
    assert step_of(store) == 7
    save(store, 2, 5)
    assert step_of(store) == 2
    assert step_of(FolderCheckpointStore(tmp_path / "run" / "checkpoints")) == 7


@pytest.mark.parametrize("inside", ["run/checkpoints", "elsewhere"])
def test_a_folder_in_the_format_of_before_is_gone_on_from(tmp_path: Path, inside: str) -> None:
    save(FolderCheckpointStore(tmp_path / inside), 7, 4)
    store = open_checkpoint_store(tmp_path / "run", {"ELASTANE_CHECKPOINTS": str(tmp_path / inside)})
    assert step_of(store) == 7
    store.own(5)
    save(store, 8, 5)
    assert step_of(store) == 8


def test_a_place_that_does_not_answer_is_told_of_when_training_starts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    store = open_checkpoint_store(tmp_path / "run", {"ELASTANE_CHECKPOINTS": str(tmp_path / "file")})
    assert highest_stored(store) == 0
    with pytest.raises(TrainError, match=r"cannot claim .*file"):
        store.own(1)


def test_a_directory_knows_its_latest_generation(tmp_path: Path) -> None:
    store = FolderCheckpointStore(tmp_path)
    assert store.highest() == 0
    save(store, 1, 3)
    assert store.highest() == 3
    store.raise_fence(9)
    assert store.highest() == 9
    (tmp_path / f"fence-{10**30}").touch()
    assert highest_stored(store) == 2**52


def test_the_reasons_why_some_were_passed_over_are_told(tmp_path: Path) -> None:
    store = open_checkpoint_store(tmp_path / "run", {"ELASTANE_CHECKPOINTS": str(tmp_path / "place")})
    save(store, 1, 1)
    save(store, 2, 1)
    for path in (tmp_path / "place").glob("*-0000000000000002-*.tensors-*"):
        path.write_bytes(b"")
    assert step_of(store) == 1
    assert len(store.skipped) == 1
