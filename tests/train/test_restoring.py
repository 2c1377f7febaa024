"""Restoring from a checkpoint: whoever does owns the directory from then on, before the first step is trained."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.utils.data import TensorDataset

import elastane.train as et
from elastane.train.worker.checkpoint import CheckpointStore
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
    stale = CheckpointStore(tmp_path / "checkpoints")
    with pytest.raises(et.TrainError, match=r"a newer generation \(7\) owns this directory"):
        stale.save(10, pack({"x": torch.zeros(1)}), {}, generation=6)
    assert stale.load() is None
