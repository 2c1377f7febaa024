"""Builds the matrix of goodputs, a row per job and a column per configuration, and what Sia makes of it.

=========  ==========================================================================================
symbol     meaning
=========  ==========================================================================================
G(j, c)    goodput of job j in configuration c, divided by the smallest of its row (times its least GPUs)
A, N, S    age, restarts so far, seconds of a restart
r          restart factor (A − N·S) ÷ (A + S) from 0 to 1, for all but the present configuration
=========  ==========================================================================================

What a job does on a type it has not run on is told by ``models.accelerator_types``; where nothing is known at all,
goodput is assumed to grow with the GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elastane.models.accelerator_types import best_known, on_type, passes_s, tells_types_apart
from elastane.models.goodput import GoodputModel, goodput_tables
from elastane.models.speed import FloatArray
from elastane.policies.allocation.eviction import Configuration
from elastane.policies.view import JobView

MOST = 3000.0
"""Normalised goodputs are cut off here, as in the published code."""


@dataclass(frozen=True)
class Row:
    """One job with the configurations it may have; ``present`` is the place of the one it has, None without one."""

    job: JobView
    choices: tuple[Configuration, ...]
    present: int | None = None
    fixed: bool = False
    """Whether it must keep what it has: it cannot be stopped, or is being restarted at this moment."""


def restart_factor(age_s: float, restarts: int, restart_s: float) -> float:
    """Returns r, the part of a goodput that is left after one more restart; 1 while a job is younger than a restart."""
    if age_s < restart_s or age_s + restart_s <= 0.0:
        return 1.0
    return max((age_s - restarts * restart_s) / (age_s + restart_s), 0.0)


def goodputs(rows: Sequence[Row]) -> list[FloatArray]:
    """Returns the estimated goodput of every choice of every row; 0 where it is not feasible."""
    found = [np.array([float(each.gpus) for each in row.choices]) for row in rows]
    alike: dict[tuple[str, tuple[tuple[int, int], ...]], list[tuple[int, list[int]]]] = {}
    for number, row in enumerate(rows):
        if row.job.speed is None:
            continue
        places: dict[str, list[int]] = {}
        for place, choice in enumerate(row.choices):
            places.setdefault(choice.gpu_type, []).append(place)
        for kind, mine in places.items():
            shapes = tuple((row.choices[place].nodes, row.choices[place].gpus) for place in mine)
            alike.setdefault((kind, shapes), []).append((number, mine))
    for (kind, shapes), members in alike.items():
        nodes, gpus = np.array(shapes, dtype=np.int64).T
        fitted = [m for m in members if isinstance(rows[m[0]].job.speed, GoodputModel)]
        if fitted:
            models = [_on(rows[number].job.speed, kind) for number, _ in fitted]
            tables = goodput_tables(models, nodes, gpus, kind).rate
            for (number, mine), table in zip(fitted, tables, strict=True):
                found[number][mine] = table
        for number, mine in members:
            speed = rows[number].job.speed
            if speed is not None and not isinstance(speed, GoodputModel):
                found[number][mine] = speed.rates(nodes, gpus, kind)
    return [np.where(np.isfinite(row), row, 0.0) for row in found]


def _on(speed: object, gpu_type: str) -> GoodputModel:
    """Returns the model on one type, estimated from another type where it has to be (T_B(n) = T_B(1)/T_A(1)·T_A(n))."""
    assert isinstance(speed, GoodputModel)
    if not tells_types_apart(speed):
        return speed
    passes = passes_s(speed)
    ratio = passes[gpu_type] / passes[best_known(speed)] if gpu_type in passes else 1.0
    return on_type(speed, gpu_type, ratio)


def normalised(row: Row, goodput: FloatArray, now_s: float) -> FloatArray:
    """Returns G of one job: 1 (or its least GPUs) for the slowest choice, all but the present one discounted by r."""
    feasible = goodput > 0.0
    if not feasible.any():
        return np.where(np.arange(len(goodput)) == row.present, 1.0, 0.0)
    scale = max(row.job.request.min_workers, 1) / goodput[feasible].min()
    out: FloatArray = np.minimum(goodput * scale, MOST)
    if row.present is not None:
        job = row.job
        factor = restart_factor(now_s - job.submit_s, job.ledger.restarts, job.restart_s)
        out = np.where(np.arange(len(out)) == row.present, np.maximum(out, 1.0), out * factor)
    return out
