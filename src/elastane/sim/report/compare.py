"""Compares runs: one row per policy, with means and 95 % intervals over its seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np
from scipy.special import stdtrit

from elastane.errors import ElastaneError
from elastane.sim.metrics import Summary, summarise
from elastane.sim.result import RunResult

FIGURES = tuple(field.name for field in fields(Summary) if field.name != "notes")
"""Names of every numeric field of a summary, in order."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A mean over seeds and the half-width of its 95 % interval (None with a single seed)."""

    mean: float
    half_width: float | None = None


@dataclass(frozen=True)
class Row:
    """One policy: its runs in order of seed, their summaries, and every figure averaged over them."""

    policy: str
    runs: tuple[RunResult, ...]
    summaries: tuple[Summary, ...]
    figures: Mapping[str, Figure | None]

    @property
    def first(self) -> RunResult:
        """The first seed's run, which represents the policy where only one can be shown."""
        return self.runs[0]

    @property
    def complete(self) -> bool:
        """Whether every job of every seed finished."""
        return not any(summary.unfinished for summary in self.summaries)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on these figures, with the seed where there are several."""
        if len(self.runs) == 1:
            return self.summaries[0].notes
        pairs = zip(self.runs, self.summaries, strict=True)
        return tuple(f"seed {run.seed}: {note}" for run, summary in pairs for note in summary.notes)


def rows(results: Iterable[RunResult]) -> tuple[Row, ...]:
    """Groups runs by policy, in the order in which the policies first appear.

    Raises:
        ElastaneError: there is nothing to compare, or one name stands for runs that must not be averaged.
    """
    groups: dict[str, list[RunResult]] = {}
    for result in results:
        groups.setdefault(result.policy, []).append(result)
    if not groups:
        raise ElastaneError("there are no results to report")
    return tuple(_row(policy, sorted(runs, key=lambda run: run.seed)) for policy, runs in groups.items())


def figure(values: Sequence[float | None]) -> Figure | None:
    """Returns the mean and Student-t interval of one figure over seeds; None if any seed lacks it."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    if len(known) == 1:
        return Figure(float(known[0]))
    spread = float(np.std(known, ddof=1)) / len(known) ** 0.5
    return Figure(float(np.mean(known)), float(stdtrit(len(known) - 1, 0.975)) * spread)


def varying_physics(results: Iterable[RunResult]) -> tuple[str, ...]:
    """Returns the names of physics parameters that are not the same in all runs."""
    physics = [result.physics for result in results]
    names = dict.fromkeys(name for each in physics for name in each)
    return tuple(name for name in names if any(a.get(name) != b.get(name) for a, b in pairwise(physics)))


def _row(policy: str, runs: list[RunResult]) -> Row:
    for a, b in pairwise(runs):
        if a.seed == b.seed:
            raise ElastaneError(f"policy {policy!r} has two results for seed {a.seed}")
        if dict(a.parameters) != dict(b.parameters):
            raise ElastaneError(f"policy {policy!r} has results with different parameters; name them apart")
        if different := [name for name in varying_physics((a, b)) if name != "seed"]:
            raise ElastaneError(f"policy {policy!r} has results with different physics: {', '.join(different)}")
    summaries = tuple(summarise(run) for run in runs)
    averaged = {name: figure([getattr(s, name) for s in summaries]) for name in FIGURES}
    return Row(policy, tuple(runs), summaries, averaged)


def notes(compared: Sequence[Row]) -> tuple[str, ...]:
    """Returns the notes below a comparison: once those that hold for all policies, then those of single ones."""
    everywhere = [note for note in compared[0].notes if all(note in row.notes for row in compared)]
    own = [
        f"{'' if row.complete else '* '}{row.policy}: {note}"
        for row in compared
        for note in row.notes
        if note not in everywhere
    ]
    return (*everywhere, *own)
