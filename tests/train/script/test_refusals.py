"""Modules made for a fixed process group are refused when the job gets them, not trained wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import elastane.train as et
from elastane.train.errors import TrainError
from elastane.train.script.refusals import advice


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> et.Job:
    monkeypatch.setattr("elastane.train.script.process.ProcessHooks.install", lambda hooks: None)
    return et.init(run=tmp_path / "run", checkpoint_every=3600.0)


def test_sync_batch_norm_is_refused_with_what_to_use_instead(job: et.Job) -> None:
    module = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)))
    with pytest.raises(TrainError, match=r"SyncBatchNorm \('1'\).*GroupNorm"):
        job.model(module)


def test_a_parallel_wrapper_is_refused_in_favour_of_the_module_inside(job: et.Job) -> None:
    with pytest.raises(TrainError, match=r"DataParallel.*without the wrapper"):
        job.model(nn.DataParallel(nn.Linear(3, 3)))


def test_a_lack_of_memory_in_a_step_is_answered_with_what_to_write() -> None:
    assert "max_per_worker" in advice(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"))
    assert advice(RuntimeError("mat1 and mat2 shapes cannot be multiplied")) == ""
