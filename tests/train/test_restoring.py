"""Restoring from a checkpoint: whoever does owns the directory from then on, before the first step is trained."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.utils.data import TensorDataset

import elastane.train as et
from elastane.train.worker.checkpoint import FolderCheckpointStore
from elastane.train.worker.state_codec import pack


def test_a_stale_writer_that_wakes_up_after_the_restore_cannot_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elastane.train.script.process.ProcessHooks.install", lambda hooks: None)
    job = et.init("fixed", run=tmp_path, checkpoint_every=3600.0)
    model = job.model(torch.nn.Linear(1, 1))
    job.optimizer(torch.optim.SGD(model.parameters(), lr=0.01))
    job.loader(TensorDataset(torch.arange(4.0).view(4, 1)), 2)
    job._session.restore(7)  # what the first worker of a start in generation 7 does
    stale = FolderCheckpointStore(tmp_path / "checkpoints")
    with pytest.raises(et.TrainError, match=r"a newer generation \(7\) owns this directory"):
        stale.save(10, pack({"x": torch.zeros(1)}), {}, generation=6)
    assert stale.load() is None


@pytest.mark.parametrize("wakes", ["before it is read", "while it is read"])
def test_what_lies_there_is_read_only_once_nobody_can_add_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wakes: str
) -> None:
    """A directory that holds something: a fence that was raised after reading would let the stale writer in."""
    monkeypatch.setattr("elastane.train.script.process.ProcessHooks.install", lambda hooks: None)
    before = et.init("fixed", run=tmp_path, checkpoint_every=3600.0)
    model = before.model(torch.nn.Linear(1, 1))
    before.optimizer(torch.optim.SGD(model.parameters(), lr=0.01))
    before.loader(TensorDataset(torch.arange(4.0).view(4, 1)), 2)
    session = before._session
    stale = FolderCheckpointStore(tmp_path / "checkpoints")
    stale.save(3, pack({"x": torch.zeros(1)}), {}, generation=6)
    load, read = session._store.load, []

    def loading() -> object:
        found = load() if wakes == "while it is read" else None
        with pytest.raises(et.TrainError, match=r"a newer generation \(7\) owns this directory"):
            stale.save(9, pack({"x": torch.ones(1)}), {}, generation=6)
        found = found or load()
        assert found is not None
        read.append(found.step)
        return None  # what lies there is not this model's

    monkeypatch.setattr(session._store, "load", loading)
    session.restore(7)
    assert read == [3]
    assert stale.steps() == [3]
