"""Formats the figures of one cell as text, shared by the terminal and the page."""

from __future__ import annotations

from dataclasses import dataclass

from elastane.sim.evaluation.findings import written as written_difference
from elastane.sim.evaluation.outcomes import MEAN_JCT, MEASURES, Measure
from elastane.sim.evaluation.protocol import Cell
from elastane.sim.evaluation.study import Study
from elastane.sim.report.columns import Unit, duration_unit, written


@dataclass(frozen=True)
class Entry:
    """A figure: its mean, ± half-width, and whether it leads among those that are ranked."""

    mean: str
    spread: str
    best: bool


@dataclass(frozen=True)
class Line:
    """One policy: its figures, and its mean JCT against the reference."""

    policy: str
    oracle: bool
    entries: tuple[Entry, ...]
    against: str
    verdict: str


@dataclass(frozen=True)
class Block:
    """One cell: headings with units, ranked policies by mean JCT, and the oracles apart."""

    cell: Cell
    jobs: str
    headings: tuple[tuple[str, str], ...]
    ranked: tuple[Line, ...]
    oracles: tuple[Line, ...]


def block(study: Study, cell: Cell) -> Block:
    """Builds everything that a table of this cell shows."""
    units = {measure.name: _unit(study, cell, measure) for measure in MEASURES}
    counts = sorted({outcome.jobs for outcome in study.outcomes[cell, study.protocol.reference]})
    return Block(
        cell,
        f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,}–{counts[-1]:,}",
        tuple((measure.title, units[measure.name].symbol) for measure in MEASURES),
        tuple(_line(study, cell, policy, units) for policy in ranked(study, cell)),
        tuple(_line(study, cell, policy, units) for policy in study.oracles),
    )


def ranked(study: Study, cell: Cell) -> list[str]:
    """Ranks the policies that do not read the truth by mean JCT, those without one last."""

    def place(policy: str) -> tuple[bool, float, str]:
        found = study.figure(cell, policy, MEAN_JCT)
        return found is None, found.mean if found else 0.0, policy

    return sorted(study.honest, key=place)


def _unit(study: Study, cell: Cell, measure: Measure) -> Unit:
    if measure.seconds:
        found = (study.figure(cell, policy, measure) for policy in study.protocol.policies)
        return duration_unit(max((each.mean for each in found if each), default=0.0))
    return Unit("%", 0.01, 1) if measure.name == "fair_share" else Unit("", 1.0, 2)


def _line(study: Study, cell: Cell, policy: str, units: dict[str, Unit]) -> Line:
    entries = []
    for measure in MEASURES:
        mean, spread = written(study.figure(cell, policy, measure), units[measure.name])
        entries.append(Entry(mean, spread, policy in _leaders(study, cell, measure)))
    difference = study.difference(cell, policy, MEAN_JCT)
    if policy == study.protocol.reference or difference is None:
        against, verdict = "–", "reference" if policy == study.protocol.reference else ""
    else:
        against, verdict = written_difference(difference, MEAN_JCT), difference.verdict(True).value
    return Line(policy, policy in study.oracles, tuple(entries), against, verdict)


def _leaders(study: Study, cell: Cell, measure: Measure) -> frozenset[str]:
    found = {policy: study.figure(cell, policy, measure) for policy in study.honest}
    means = {policy: each.mean for policy, each in found.items() if each}
    if len(means) < 2 or len(set(means.values())) == 1:
        return frozenset()
    target = min(means.values()) if measure.lower_is_better else max(means.values())
    return frozenset(policy for policy, mean in means.items() if mean == target)
