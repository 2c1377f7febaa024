"""Writes the evaluation as one JSON document: the same bytes for the same inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from elastane import __version__
from elastane.sim.evaluation.ablations import Ablation
from elastane.sim.evaluation.findings import findings
from elastane.sim.evaluation.layout import ranked
from elastane.sim.evaluation.outcomes import MEASURES
from elastane.sim.evaluation.protocol import Cell
from elastane.sim.evaluation.statistics import Difference
from elastane.sim.evaluation.study import Study
from elastane.sim.evaluation.summary import sentences
from elastane.sim.metrics import FAIRNESS_DEFINITION


def document(study: Study, ablations: Sequence[Ablation]) -> dict[str, object]:
    """Builds the document: figures by seed, intervals, paired differences, findings, ablations."""
    protocol = asdict(study.protocol)
    cells = protocol.pop("cells")
    return {
        "elastane": __version__,
        "protocol": {**protocol, "declared": "epochs", "triggers": "rounds only", "cells": cells},
        "definitions": {"rho": FAIRNESS_DEFINITION},
        "cells": [_cell(study, cell) for cell in study.protocol.cells],
        "not_best": [
            {
                "measure": finding.measure.name,
                "workload": finding.cell.workload,
                "load": finding.cell.label,
                "policy": finding.policy,
                "difference": _difference(finding.difference, finding.measure.lower_is_better),
            }
            for finding in findings(study)
        ],
        "ablations": [
            {
                "policy": each.variant.policy,
                "variant": each.variant.name,
                "mean_jct_against_itself": _difference(each.against_itself, True),
                "mean_jct_against_pollux": _difference(each.against_pollux, True),
            }
            for each in ablations
        ],
        "summary": list(sentences(study)),
        "notes": list(study.notes()),
    }


def _cell(study: Study, cell: Cell) -> dict[str, object]:
    return {
        "workload": cell.workload,
        "load": cell.label,
        "offered": cell.load,
        "ranking": ranked(study, cell),
        "policies": {policy: _policy(study, cell, policy) for policy in study.protocol.policies},
    }


def _policy(study: Study, cell: Cell, policy: str) -> dict[str, object]:
    outcomes = study.outcomes[cell, policy]
    means = {measure.name: study.figure(cell, policy, measure) for measure in MEASURES}
    return {
        "oracle": policy in study.oracles,
        **{name: each.mean if each else None for name, each in means.items()},
        "ci95": {name: each.half_width if each else None for name, each in means.items()},
        "against_reference": {
            measure.name: _difference(study.difference(cell, policy, measure), measure.lower_is_better)
            for measure in MEASURES
        },
        "per_seed": [
            {"seed": seed, "jobs": each.jobs, "unfinished": each.unfinished, **each.figures}
            for seed, each in zip(study.protocol.seeds, outcomes, strict=True)
        ],
    }


def _difference(difference: Difference | None, lower_is_better: bool) -> dict[str, object] | None:
    if difference is None:
        return None
    return {**asdict(difference), "verdict": difference.verdict(lower_is_better).value}
