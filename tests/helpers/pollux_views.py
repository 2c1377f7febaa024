"""Small views and problems for the tests of Pollux's searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elastane.cluster import Batch, Grant, Node
from elastane.models.estimate import Provenance
from elastane.models.speed import FloatArray, IntArray
from elastane.policies.allocation.problem import Problem, build_problem
from elastane.policies.view import Facts, Info, JobView, Ledger, Request, View


@dataclass(frozen=True)
class Curve:
    """K / (1 + loss·(K−1)) samples per second, on several nodes with twice the loss."""

    loss: float
    max_profiled: int = 64
    max_useful: int = 64
    source: Provenance = Provenance.FITTED

    def rates(self, nodes: IntArray, workers: IntArray, gpu_type: str = "") -> FloatArray:
        loss = np.where(nodes > 1, 2.0 * self.loss, self.loss)
        return workers / (1.0 + loss * np.maximum(workers - 1, 0))

    def best_batch(self, nodes: int, workers: int, gpu_type: str = "") -> Batch | None:
        return Batch(1)


def job(
    name: str,
    loss: float = 0.05,
    grant: Sequence[tuple[str, int]] = (),
    *,
    preemptible: bool = True,
    types: tuple[str, ...] = (),
    most: int = 64,
    least: int = 1,
    restarts: int = 0,
    service: float = 0.0,
) -> JobView:
    held = Grant.of(grant) if grant else None
    return JobView(
        name,
        0.0,
        Request(workers=least, min_workers=least, max_workers=most, types=types, preemptible=preemptible),
        grant=held,
        ledger=Ledger(3600.0, held.workers if held else 0, service, restarts=restarts),
        facts=Facts(speed=Curve(loss)),
        visible=Info.SPEED,
    )


def view(
    jobs: Sequence[JobView], nodes: Sequence[int] | dict[str, Node], seed: int = 1, memory: Any = None
) -> View:
    named = nodes if isinstance(nodes, dict) else {f"n{i}": Node(f"n{i}", g) for i, g in enumerate(nodes)}
    return View(3600.0, {j.id: j for j in jobs}, named, memory=memory, seed=seed, visible=Info.SPEED)


def problem(jobs: Sequence[JobView], nodes: Sequence[int] | dict[str, Node], p: float = -1.0) -> Problem:
    return build_problem(view(jobs, nodes), p, 30.0, True, 2.0)
