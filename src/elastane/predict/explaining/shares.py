"""Computes shares of a step's time by group, largest first, with their cumulative sum, predicted and measured."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from elastane.predict.costs.contract import roofline_s
from elastane.predict.operators import Kind, Operator, Phase
from elastane.predict.steps import StepEstimate


class By(Enum):
    """The property by which operators are grouped."""

    OPERATOR = "operator"
    KIND = "kind"
    MODULE = "module"
    LAYER = "layer"

    def name_of(self, operator: Operator) -> str:
        """Returns the group of an operator; a layer is a module directly in the model."""
        if self is By.OPERATOR:
            return operator.name
        if self is By.KIND:
            return operator.kind.value
        module = operator.module or f"({operator.phase.value})"
        return module if self is By.MODULE else module.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Share:
    """The share of one group.  Rates and the fraction of the roofline refer to the predicted time."""

    name: str
    calls: int
    seconds: float
    share: float
    cumulative: float
    flops: float
    bytes: float
    of_roofline: float
    phases: Mapping[Phase, float]
    measured_s: float | None = None

    @property
    def gflops_per_s(self) -> float:
        """Billions of floating-point operations per second."""
        return self.flops / self.seconds / 1e9

    @property
    def gb_per_s(self) -> float:
        """Gigabytes moved per second."""
        return self.bytes / self.seconds / 1e9

    @property
    def off_s(self) -> float:
        """Predicted minus measured seconds; 0 if nothing was measured."""
        return 0.0 if self.measured_s is None else self.seconds - self.measured_s


@dataclass(frozen=True)
class Shares:
    """The shares of all groups of one step, and the time of operators without a rule."""

    by: By
    rows: tuple[Share, ...]
    unknown_s: float
    measured_s: float | None = None
    names: tuple[str, ...] = field(default=())

    @property
    def seconds(self) -> float:
        """Predicted seconds of the whole step."""
        return math.fsum(each.seconds for each in self.rows)

    def needed(self, part: float) -> int:
        """Returns how many groups make up a fraction of the time: 5 to 15 carry 90 % of most networks."""
        return next(
            (n for n, each in enumerate(self.rows, 1) if each.cumulative >= part - 1e-9), len(self.rows)
        )

    def worst_first(self) -> tuple[Share, ...]:
        """Returns the groups sorted by the size of their error in seconds, largest first."""
        return tuple(sorted(self.rows, key=lambda each: -abs(each.off_s)))


Measured = Sequence[tuple[Operator, float]]
"""Operators with their seconds; they add up to the measured step."""


def shares_of(estimate: StepEstimate, by: By, measured: Measured | None = None) -> Shares:
    """Groups the operators of a predicted step, and those of a measured one beside them."""
    roofs = roofline_s(estimate.operators, estimate.machine.device, estimate.precision)
    times = estimate.times.seconds * estimate.scale
    groups: dict[str, list[int]] = defaultdict(list)
    for place, each in enumerate(estimate.operators):
        groups[by.name_of(each)].append(place)
    seen = _summed(measured, by.name_of) if measured is not None else None
    total, cumulative, rows = float(times.sum()), 0.0, []
    for name, places in sorted(groups.items(), key=lambda item: (-float(times[item[1]].sum()), item[0])):
        inside = [estimate.operators[place] for place in places]
        seconds = float(times[places].sum())
        cumulative += seconds
        rows.append(
            Share(
                name=name,
                calls=len(places),
                seconds=seconds,
                share=seconds / total,
                cumulative=min(cumulative / total, 1.0),
                flops=sum(each.flops for each in inside),
                bytes=sum(each.bytes for each in inside),
                of_roofline=float(roofs[places].sum()) / seconds,
                phases={phase: _phase(inside, times[places], phase) for phase in Phase},
                measured_s=None if seen is None else seen.pop(name, 0.0),
            )
        )
    rows += [_only_measured(name, seconds) for name, seconds in (seen or {}).items()]
    unknown = np.array([each.kind is Kind.UNKNOWN for each in estimate.operators])
    return Shares(
        by=by,
        rows=tuple(rows),
        unknown_s=float(times[unknown].sum()),
        measured_s=None if measured is None else math.fsum(seconds for _, seconds in measured),
        names=tuple(name for name, _ in estimate.capture.unknown),
    )


def similarity(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Returns the cosine of two steps' seconds by name: 1 if they spend their time alike, 0 with none in common."""
    dot = sum(seconds * other.get(name, 0.0) for name, seconds in one.items())
    sizes = [math.sqrt(sum(each**2 for each in step.values())) for step in (one, other)]
    return dot / (sizes[0] * sizes[1]) if min(sizes) > 0.0 else 0.0


def _phase(
    inside: Sequence[Operator], seconds: np.ndarray[tuple[int], np.dtype[np.float64]], phase: Phase
) -> float:
    return float(sum(each for operator, each in zip(inside, seconds, strict=True) if operator.phase is phase))


def _summed(measured: Measured, name_of: Callable[[Operator], str]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for operator, seconds in measured:
        found[name_of(operator)] += seconds
    return found


def _only_measured(name: str, seconds: float) -> Share:
    """Makes the share of a group that was measured and not predicted."""
    return Share(name, 0, 1e-12, 0.0, 1.0, 0.0, 0.0, 1.0, dict.fromkeys(Phase, 0.0), seconds)
