"""Summarises the evaluation in sentences: where the reference is not best, and its gap to the oracles."""

from __future__ import annotations

from collections.abc import Sequence

from elastane.sim.evaluation.findings import Finding, findings, written
from elastane.sim.evaluation.outcomes import MEAN_JCT, MEASURES, Measure
from elastane.sim.evaluation.protocol import Cell
from elastane.sim.evaluation.statistics import Verdict
from elastane.sim.evaluation.study import Study


def sentences(study: Study) -> tuple[str, ...]:
    """Returns a line per measure with every cell in which another policy is ahead, then the gap to each oracle."""
    found = findings(study)
    if len(study.honest) < 2:
        return (f"{study.protocol.reference} was compared with no other policy that does not read the truth.",)
    lines = []
    for measure in MEASURES:
        behind = [finding for finding in found if finding.measure == measure]
        lines.append(f"{measure.title}: {_standing(study, measure, behind)}")
    return (*lines, *_gaps(study))


def _standing(study: Study, measure: Measure, behind: Sequence[Finding]) -> str:
    reference, cells = study.protocol.reference, study.protocol.cells
    sure = sum(_surely_best(study, measure, cell) for cell in cells)
    if not behind:
        return f"{reference} is best or as good in all {len(cells)} cells (95 % sure in {sure})."
    where = "; ".join(finding.text for finding in behind)
    return f"{reference} is not best in {len(behind)} of {len(cells)} cells (95 % sure that it is in {sure}). {where}."


def _surely_best(study: Study, measure: Measure, cell: Cell) -> bool:
    """Tells whether all other policies are worse with their whole interval; those without a figure do not count."""
    others = [policy for policy in study.honest if policy != study.protocol.reference]
    found = [study.difference(cell, policy, measure) for policy in others]
    return all(each.verdict(measure.lower_is_better) is Verdict.WORSE for each in found if each)


def _gaps(study: Study) -> list[str]:
    lines = []
    for policy in study.oracles:
        found = [(cell, study.difference(cell, policy, MEAN_JCT)) for cell in study.protocol.cells]
        gaps = "; ".join(f"{cell.title} {written(gap, MEAN_JCT)}" for cell, gap in found if gap)
        who = f"{policy}, which reads the truth, against {study.protocol.reference}"
        lines.append(f"{who}, mean JCT: {gaps or 'unknown'}.")
    return lines
