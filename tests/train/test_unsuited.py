"""Modules made for a fixed process group are refused when the job gets them, not trained wrongly."""

from __future__ import annotations

import pytest
from torch import nn

from elastane.train.errors import TrainError
from elastane.train.job import Job
from elastane.train.shares import Mode
from elastane.train.state import TrainingState


def bare_job() -> Job:
    """A job that has only what ``model`` looks at."""
    job = Job.__new__(Job)
    job.mode, job._state = Mode.FIXED, TrainingState()
    return job


def test_sync_batch_norm_is_refused_with_what_to_use_instead() -> None:
    module = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)))
    with pytest.raises(TrainError, match=r"SyncBatchNorm \('1'\).*GroupNorm"):
        bare_job().model(module)


def test_a_parallel_wrapper_is_refused_in_favour_of_the_module_inside() -> None:
    with pytest.raises(TrainError, match=r"DataParallel.*without the wrapper"):
        bare_job().model(nn.DataParallel(nn.Linear(3, 3)))
