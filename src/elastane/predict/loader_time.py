"""Measures how long a job's data loader takes per batch, by taking batches from it and doing nothing else."""

from __future__ import annotations

import time
from itertools import islice
from statistics import median

from elastane.errors import ElastaneError
from elastane.predict.job import TrainingJob

WARM_UP = 2
"""First batches that are not counted, while workers start and files are opened."""


def measure_loader(job: TrainingJob, batch: int, batches: int = 50) -> float:
    """Returns the median seconds per batch over so many batches, or over as many as there are."""
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
