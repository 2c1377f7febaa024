"""Converts guarantees from mean GPUs to GPUs of each accelerator type: as many as do the same work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from elastane.policies.allocation.multi_type import Parts
from elastane.policies.allocation.problem import Problem
from elastane.policies.elastane.job_estimates import JobEstimates
from elastane.policies.elastane.waiting_bound import Guarantees

_TINY = 1e-12


def owed_on(parts: Parts, outlook: JobEstimates, due: Guarantees) -> tuple[Guarantees, ...]:
    """Returns for every type the guarantee of each job in GPUs of that type."""
    if len(parts) == 1:
        return (due,)
    late = np.flatnonzero(due.gpus)
    speeds = {int(row): _speed(outlook, int(row), int(due.gpus[row])) for row in late}
    found = []
    for part in parts:
        gpus, packed = due.gpus.copy(), part.packed()
        for row, speed in speeds.items():
            stays = int(part.held[row].sum()) == int(due.gpus[row])
            gpus[row] = due.gpus[row] if stays else _needed(part, packed[row], row, speed)
        found.append(replace(due, gpus=gpus))
    return tuple(found)


def _speed(outlook: JobEstimates, row: int, gpus: int) -> float:
    """Returns the guaranteed speed-up; that with what the job holds now if that is the guaranteed size."""
    stays = outlook.jobs[row].workers == gpus
    return outlook.present_speedup(row) if stays else outlook.speedup_of(row, gpus)


def _needed(part: Problem, speeds: np.ndarray[tuple[int], np.dtype[np.float64]], row: int, speed: float) -> int:
    """Returns the fewest GPUs of this type that are fast enough; more than the job may have where none are."""
    least, most = int(part.least[row]), max(int(part.most[row]), 1)
    enough = np.flatnonzero(speeds[: most + 1] >= speed * (1.0 - 1e-9))
    if enough.size:
        return max(int(enough[0]), least, 1)
    return max(int(np.ceil(most * min(speed / max(float(speeds[: most + 1].max()), _TINY), 1e6))), least, 1)
