"""Groups runs of a sweep over one parameter (load, round length, interference) into lines per policy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elastane.errors import ElastaneError
from elastane.sim.metrics import summarise
from elastane.sim.report.compare import Figure, figure, varying_physics
from elastane.sim.result import RunResult

Value = float | int | str


@dataclass(frozen=True)
class SweepPoint:
    """One run at one value of the parameter that was swept; runs that differ only in seed are averaged."""

    parameter: str
    value: Value
    result: RunResult


@dataclass(frozen=True)
class SweepLine:
    """Mean JCT of one policy over the values of a parameter; ``complete`` False where jobs were left over."""

    policy: str
    values: tuple[Value, ...]
    mean_jct_s: tuple[Figure | None, ...]
    complete: tuple[bool, ...]


def sweep_points(results: Sequence[RunResult], parameter: str | None = None) -> tuple[SweepPoint, ...]:
    """Turn runs under different physics into points; the parameter is found if only one varies.

    Raises:
        ElastaneError: none or several parameters vary and none was named, or a run lacks the named one.
    """
    if parameter is None:
        names = [name for name in varying_physics(results) if name != "seed"]
        if len(names) != 1:
            raise ElastaneError(
                f"name the swept parameter: {', '.join(names) or 'nothing'} varies between runs"
            )
        parameter = names[0]
    return tuple(SweepPoint(parameter, _value(result, parameter), result) for result in results)


def sweep_lines(points: Iterable[SweepPoint]) -> dict[str, tuple[SweepLine, ...]]:
    """For each parameter, one line per policy, in the order in which they first appear."""
    cells: dict[str, dict[str, dict[Value, list[RunResult]]]] = {}
    for point in points:
        policies = cells.setdefault(point.parameter, {})
        policies.setdefault(point.result.policy, {}).setdefault(point.value, []).append(point.result)
    return {
        parameter: tuple(_line(policy, by_value) for policy, by_value in policies.items())
        for parameter, policies in cells.items()
    }


def _line(policy: str, by_value: dict[Value, list[RunResult]]) -> SweepLine:
    # Numbers in their order; text (names of settings) after them as it came.
    values = sorted(by_value, key=lambda v: (isinstance(v, str), 0.0 if isinstance(v, str) else float(v)))
    summaries = [[summarise(run) for run in by_value[value]] for value in values]
    return SweepLine(
        policy,
        tuple(values),
        tuple(figure([each.mean_jct_s for each in cell]) for cell in summaries),
        tuple(not any(each.unfinished for each in cell) for cell in summaries),
    )


def _value(result: RunResult, parameter: str) -> Value:
    value = result.physics.get(parameter)
    if isinstance(value, float | int | str):
        return value
    raise ElastaneError(f"a run of {result.policy!r} has no value of {parameter!r} in its physics")
