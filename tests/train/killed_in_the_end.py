"""Kills a worker in the evaluation that follows a ``Trainer``'s training; loaded into workers by ``--preload``."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from elastane.train.hf import ElasticTrainer

_evaluate = ElasticTrainer.evaluate


def _fatal_evaluate(trainer: ElasticTrainer, *given: Any, **others: Any) -> Any:
    if not trainer.is_in_train and trainer.job.rank == 1:
        Path(os.environ["ELASTANE_RUN"], "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return _evaluate(trainer, *given, **others)


ElasticTrainer.evaluate = _fatal_evaluate
