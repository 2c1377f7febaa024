"""Merges similar past jobs into one prediction: equal configurations are pooled, missing types are transferred."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from elastane.models.estimate import Estimate, Provenance
from elastane.models.fitting import Observations
from elastane.models.history.experience import Experience, NoisePoint, Timing, spread_out
from elastane.models.history.prior import Memory, Remembered
from elastane.models.history.transfer import Ratios
from elastane.models.history.work import WorkPrior

_MOST_ROWS = 24
"""Pooled configurations per accelerator: fits are vectorised, so the one with most rows slows all of them."""
_PRIOR_SPREAD, _PRIOR_COUNT = 0.15, 2
"""Prior of how much neighbours differ (relative), and its weight in observations."""
_NOISE_POINTS = 12

Neighbour = tuple[Experience, float]
"""A past job and its similarity, from 0 to 1."""


def recollect(knowing: Sequence[Neighbour], alike: Sequence[Neighbour], ratios: Ratios) -> Memory:
    """Merges neighbours: speed and noise of those with most measurements, total work of all that are similar."""
    remembered = _remembered(knowing)
    remembered = {**remembered, **_transferred(remembered, ratios)}
    finished = [(past.total_work, weight) for past, weight in alike if past.total_work is not None]
    return Memory(
        remembered=remembered,
        noise=_noise(knowing),
        work=WorkPrior.of(*zip(*finished, strict=True)) if finished else None,
        restart=_restart(alike),
        neighbours=len(alike),
        similarity=max(weight for _, weight in alike),
        most_workers=max(past.most_workers for past, _ in knowing),
        limits=next((past.limits for past, _ in alike if past.limits is not None), None),
    )


@dataclass(slots=True)
class _Cell:
    """One configuration as several neighbours measured it."""

    gradient: list[float] = field(default_factory=list)
    step: list[float] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)

    def add(self, timing: Timing, weight: float) -> None:
        self.gradient.append(math.log(timing.gradient_s))
        self.step.append(math.log(timing.step_s))
        self.weight.append(weight)

    def means(self) -> tuple[float, float]:
        """Returns the weighted geometric mean of each column."""
        total = sum(self.weight)
        return (
            math.exp(sum(w * x for w, x in zip(self.weight, self.gradient, strict=True)) / total),
            math.exp(sum(w * x for w, x in zip(self.weight, self.step, strict=True)) / total),
        )

    def scatter(self) -> float:
        """Sum of squares of ln(step time) about its mean."""
        mean = sum(self.step) / len(self.step)
        return sum((x - mean) ** 2 for x in self.step)


def _remembered(knowing: Sequence[Neighbour]) -> dict[str, Remembered]:
    cells: dict[str, dict[tuple[int, int, int], _Cell]] = {}
    for past, weight in knowing:
        for kind, rows in past.timings.items():
            table = cells.setdefault(kind, {})
            for row in rows:
                table.setdefault(row[:3], _Cell()).add(row, weight)
    found = {kind: _pooled(table) for kind, table in cells.items() if table}
    # The best known first: a type without measurements borrows from it.
    return dict(sorted(found.items(), key=lambda item: (-len(item[1].rows.nodes), item[0])))


def _pooled(cells: Mapping[tuple[int, int, int], _Cell]) -> Remembered:
    keys = sorted(cells)
    rows = [Timing(*key, *cells[key].means(), len(cells[key].weight)) for key in keys]
    kept = spread_out(rows, _MOST_ROWS)
    freedom = sum(len(cell.weight) - 1 for cell in cells.values())
    scatter = sum(cell.scatter() for cell in cells.values())
    spread = math.sqrt((scatter + _PRIOR_COUNT * _PRIOR_SPREAD**2) / (freedom + _PRIOR_COUNT))
    weight = np.array([sum(cells[keys[i]].weight) for i in kept])
    nodes, workers, per_gpu, gradient_s, step_s = np.array([rows[i][:5] for i in kept], dtype=np.float64).T
    return Remembered(Observations(nodes, workers, per_gpu, gradient_s, step_s, weight), spread)


def _transferred(known: Mapping[str, Remembered], ratios: Ratios) -> dict[str, Remembered]:
    """Transfers timings to types no neighbour ran on, by the surest one-GPU ratio to a type they did run on."""
    found: dict[str, Remembered] = {}
    for (source, target), ratio in ratios.items():
        if target in known or target in found or source not in known:
            continue
        rows, factor = known[source].rows, math.exp(ratio.mean)
        scaled = Observations(
            rows.nodes, rows.workers, rows.per_gpu, rows.gradient_s * factor, rows.step_s * factor, rows.weight
        )
        found[target] = Remembered(scaled, math.hypot(known[source].spread, ratio.std))
    return found


def _noise(knowing: Sequence[Neighbour]) -> tuple[NoisePoint, ...]:
    """Averages the neighbours' noise (its logarithm) at even fractions of the work."""
    paths = [(past.noise, weight) for past, weight in knowing if past.noise]
    if not paths:
        return ()
    parts = np.linspace(0.0, 1.0, _NOISE_POINTS)
    total = np.zeros(_NOISE_POINTS)
    for path, weight in paths:
        logs = np.log(np.maximum([point.noise for point in path], 1e-9))
        total += weight * np.interp(parts, [point.fraction for point in path], logs)
    means = np.exp(total / sum(weight for _, weight in paths))
    return tuple(NoisePoint(*pair) for pair in zip(parts.tolist(), means.tolist(), strict=True))


def _restart(alike: Sequence[Neighbour]) -> Estimate | None:
    known = [(past.restart_s, weight) for past, weight in alike if past.restart_s is not None]
    if not known:
        return None
    values, weights = (np.array(column) for column in zip(*known, strict=True))
    mean = float(np.average(values, weights=weights))
    spread = float(np.sqrt(np.average((values - mean) ** 2, weights=weights)))
    return Estimate(mean, spread, len(known), Provenance.HISTORY)
