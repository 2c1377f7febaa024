"""The evaluation in sentences: where the reference is not best, and how far the all-knowing are ahead."""

from __future__ import annotations

from collections.abc import Sequence

from elastane.sim.evaluation.findings import Finding, findings, written
from elastane.sim.evaluation.outcomes import MEAN_JCT, MEASURES
from elastane.sim.evaluation.study import Study


def sentences(study: Study) -> tuple[str, ...]:
    """One line per measure with every cell in which somebody is ahead, then the gap to each oracle."""
    found, reference = findings(study), study.protocol.reference
    if len(study.honest) < 2:
        return (f"{reference} was compared with nobody who does not read the truth.",)
    lines = []
    for measure in MEASURES:
        behind = [finding for finding in found if finding.measure == measure]
        lines.append(f"{measure.title}: {_standing(reference, behind, len(study.protocol.cells))}")
    return (*lines, *_gaps(study))


def _standing(reference: str, behind: Sequence[Finding], cells: int) -> str:
    if not behind:
        return f"{reference} is best or as good in all {cells} cells."
    told = "; ".join(finding.text for finding in behind)
    return f"{reference} is not best in {len(behind)} of {cells} cells. {told}."


def _gaps(study: Study) -> list[str]:
    lines = []
    for policy in study.oracles:
        found = [(cell, study.difference(cell, policy, MEAN_JCT)) for cell in study.protocol.cells]
        told = "; ".join(f"{cell.title} {written(gap, MEAN_JCT)}" for cell, gap in found if gap)
        who = f"{policy}, which reads the truth, against {study.protocol.reference}"
        lines.append(f"{who}, mean JCT: {told or 'unknown'}.")
    return lines
