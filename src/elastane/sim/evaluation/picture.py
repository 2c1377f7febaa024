"""Draws every policy's mean JCT against the reference, cell by cell, with intervals, as plain SVG without a script."""

from __future__ import annotations

import math
from html import escape

from elastane.sim.evaluation.layout import ranked
from elastane.sim.evaluation.outcomes import MEAN_JCT
from elastane.sim.evaluation.protocol import Cell
from elastane.sim.evaluation.statistics import Difference
from elastane.sim.evaluation.study import Study
from elastane.sim.report.embed import PALETTE

_WIDTH, _LEFT, _RIGHT, _ROW, _GAP = 1180, 260, 24, 20, 22
_TICKS = (1.0, 2.0, 5.0, 0.5, 10.0, 20.0, 50.0, 0.2, 1.5, 3.0, 0.7, 0.8, 1.2, 0.9, 1.1)
"""Ticks in order of preference: one that would stand too close to those before it is left out."""
_TICK_ROOM = 44


def dot_plot(study: Study) -> str:
    """Draws the ratios of mean JCT on a logarithmic axis, where 1 is the reference."""
    shown = {cell: _differences(study, cell) for cell in study.protocol.cells}
    ratios = [1.0, *(1.0 + each.value for rows in shown.values() for _, each in rows)]
    low, high = min(*ratios, 0.9) / 1.06, max(*ratios, 1.1) * 1.06
    scale = _Scale(low, high)
    parts, top = [], 24.0
    for cell, rows in shown.items():
        parts.append(f'<text x="0" y="{top + 4:g}" font-weight="600">{escape(cell.title)}</text>')
        top += _ROW
        for policy, difference in rows:
            parts.append(_row(study, policy, difference, scale, top))
            top += _ROW
        top += _GAP
    return (
        f'<div class="scroll"><svg viewBox="0 0 {_WIDTH} {top + 14:g}" width="{_WIDTH}" role="img" '
        f'aria-label="Mean completion time of every policy against {escape(study.protocol.reference)}">'
        f"{_axis(scale, top)}{''.join(parts)}</svg></div>"
    )


class _Scale:
    """Maps ratios to horizontal positions on a logarithmic axis; values outside stand at the edge."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def at(self, ratio: float) -> float:
        """Returns the horizontal position of a ratio."""
        inside = min(max(ratio, self.low), self.high)
        part = math.log(inside / self.low) / math.log(self.high / self.low)
        return round(_LEFT + part * (_WIDTH - _LEFT - _RIGHT), 1)


def _differences(study: Study, cell: Cell) -> list[tuple[str, Difference]]:
    policies = [name for name in (*ranked(study, cell), *study.oracles) if name != study.protocol.reference]
    found = ((policy, study.difference(cell, policy, MEAN_JCT)) for policy in policies)
    return [(policy, difference) for policy, difference in found if difference]


def _row(study: Study, policy: str, difference: Difference, scale: _Scale, top: float) -> str:
    color = PALETTE[study.protocol.policies.index(policy) % len(PALETTE)]
    x = scale.at(1.0 + difference.value)
    text = f'<text x="{_LEFT - 10}" y="{top + 4:g}" text-anchor="end" class="soft">{escape(policy)}</text>'
    bar = ""
    if difference.low is not None and difference.high is not None:
        ends = scale.at(1.0 + difference.low), scale.at(1.0 + difference.high)
        bar = (
            f'<line x1="{ends[0]}" x2="{ends[1]}" y1="{top:g}" y2="{top:g}" stroke="{color}" stroke-width="2"/>'
        )
    fill = "#fff" if policy in study.oracles else color
    dot = f'<circle cx="{x}" cy="{top:g}" r="5" fill="{fill}" stroke="{color}" stroke-width="2"/>'
    return text + bar + dot


def _axis(scale: _Scale, height: float) -> str:
    parts: list[str] = []
    taken: list[float] = []
    for tick in _TICKS:
        x = scale.at(tick)
        if not scale.low <= tick <= scale.high or any(abs(x - other) < _TICK_ROOM for other in taken):
            continue
        taken.append(x)
        color = "#1b2430" if tick == 1.0 else "#e2e6eb"
        label = f'<text x="{x}" y="{height + 12:g}" text-anchor="middle" class="soft">{tick:g}×</text>'
        parts.append(f'<line x1="{x}" x2="{x}" y1="12" y2="{height:g}" stroke="{color}"/>{label}')
    return "".join(parts)
