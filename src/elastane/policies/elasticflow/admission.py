"""Decides which jobs get a promise: a new one does if it and all that were promised before can meet their deadlines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from elastane.models.speed import IntArray
from elastane.policies.elasticflow.curves import Curve
from elastane.policies.elasticflow.filling import Slots, minimum_share
from elastane.policies.reasons import Gpus, Job, listed, said


@dataclass(frozen=True)
class Due:
    """A job with a deadline in seconds from now, and its curve on each type it may use; ``home`` is where it runs."""

    id: str
    submit_s: float
    deadline_s: float
    curves: Mapping[str, Curve]
    home: str | None = None


@dataclass(frozen=True)
class Share:
    """The GPUs of one type that a job is to have in every slot."""

    gpu_type: str
    gpus: IntArray


Free = dict[str, IntArray]
"""GPUs of each type that are free in every slot."""


def shares_of(
    jobs: Sequence[Due], slots: Slots, free: Mapping[str, IntArray]
) -> tuple[dict[str, Share], list[str]]:
    """Returns minimum satisfactory shares in the order of deadlines, and the jobs for which there is none."""
    left = {kind: array.copy() for kind, array in free.items()}
    shares: dict[str, Share] = {}
    failed: list[str] = []
    for job in sorted(jobs, key=lambda job: (job.deadline_s, job.submit_s, job.id)):
        share = _cheapest(job, slots, left)
        if share is None:
            failed.append(job.id)
        else:
            shares[job.id] = share
            left[share.gpu_type] = left[share.gpu_type] - share.gpus
    return shares, failed


def _cheapest(job: Due, slots: Slots, free: Mapping[str, IntArray]) -> Share | None:
    """Returns the share with the fewest GPU seconds; a job stays on the type it runs on if that is enough."""
    seconds = slots.seconds_before(job.deadline_s)
    homes = [job.home] if job.home is not None and job.home in job.curves else []
    for kinds in (homes, sorted(job.curves)):
        found = [
            Share(kind, gpus)
            for kind in kinds
            if (gpus := minimum_share(job.curves[kind], seconds, free[kind])) is not None
        ]
        if found:
            return min(found, key=lambda share: float(np.dot(share.gpus, seconds)))
    return None


def admit(
    promised: Sequence[Due], new: Sequence[Due], slots: Slots, free: Mapping[str, IntArray]
) -> tuple[list[Due], dict[str, str]]:
    """Returns the jobs with a promise, and why each of the others gets none; new ones are tried one after another."""
    admitted, refused = list(promised), dict[str, str]()
    _, late = shares_of(admitted, slots, free)
    for job in sorted(new, key=lambda job: (job.submit_s, job.id)):
        _, failed = shares_of([*admitted, job], slots, free)
        if set(failed) <= set(late):
            admitted.append(job)
        elif job.id in failed:
            refused[job.id] = said("no number of free ", Gpus(), " finishes it by its deadline")
        else:
            refused[job.id] = said(
                listed([Job(each) for each in sorted(set(failed) - set(late))]),
                " could not keep a promised deadline",
            )
    return admitted, refused
