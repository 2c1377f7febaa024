"""How long a job's data loader takes per batch, measured by asking it for batches and doing nothing else."""

from __future__ import annotations

import time
from itertools import islice
from statistics import median

from elastane.errors import ElastaneError
from elastane.predict.job import TrainingJob

WARM_UP = 2
"""Batches that are not counted: workers start, files are opened."""


def measure_loader(job: TrainingJob, batch: int, batches: int = 50) -> float:
    """Seconds per batch: the median over so many, or over as many as there are."""
    if job.loader_fn is None:
        raise ElastaneError("the job has no loader_fn, so its data loading cannot be measured")
    waits, began = [], time.perf_counter()
    for _ in islice(job.loader_fn(batch), WARM_UP + batches):
        now = time.perf_counter()
        waits.append(now - began)
        began = now
    if not waits:
        raise ElastaneError("loader_fn gave no batch")
    return median(waits[WARM_UP:] or waits)
