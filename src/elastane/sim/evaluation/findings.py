"""Finds where the reference is not best: the policy that beats it, on which measure, by how much, how surely."""

from __future__ import annotations

from dataclasses import dataclass

from elastane.sim.evaluation.outcomes import MEASURES, Measure
from elastane.sim.evaluation.protocol import Cell
from elastane.sim.evaluation.statistics import Difference, Verdict
from elastane.sim.evaluation.study import Study


@dataclass(frozen=True)
class Finding:
    """A policy that does not read the truth has a better figure than the reference."""

    measure: Measure
    cell: Cell
    policy: str
    difference: Difference

    @property
    def verdict(self) -> Verdict:
        """Whether the difference is significant over the seeds."""
        return self.difference.verdict(self.measure.lower_is_better)

    @property
    def text(self) -> str:
        """Says the finding in one sentence."""
        return (
            f"{self.cell.title}: {self.policy} {written(self.difference, self.measure)} ({self.verdict.value})"
        )


def findings(study: Study) -> tuple[Finding, ...]:
    """Returns for each measure and cell the policy that is furthest ahead of the reference, if any is."""
    found = []
    for measure in MEASURES:
        for cell in study.protocol.cells:
            ahead = _ahead(study, measure, cell)
            if ahead:
                found.append(max(ahead, key=lambda finding: (abs(finding.difference.value), finding.policy)))
    return tuple(found)


def _ahead(study: Study, measure: Measure, cell: Cell) -> list[Finding]:
    reference, found = study.protocol.reference, []
    for policy in study.honest:
        if policy == reference or (difference := study.difference(cell, policy, measure)) is None:
            continue
        if difference.value and (difference.value < 0.0) == measure.lower_is_better:
            found.append(Finding(measure, cell, policy, difference))
    return found


def written(difference: Difference, measure: Measure) -> str:
    """Formats a difference with its interval: per cent where it is relative or a share, else plain."""
    if measure.relative or measure.name == "fair_share":
        unit, scale, decimals = (" %" if measure.relative else " points"), 100.0, 1
    else:
        unit, scale, decimals = "", 1.0, 2
    text = f"{difference.value * scale:+.{decimals}f}{unit}"
    if difference.low is None or difference.high is None:
        return text
    return f"{text} [{difference.low * scale:+.{decimals}f}, {difference.high * scale:+.{decimals}f}]"
