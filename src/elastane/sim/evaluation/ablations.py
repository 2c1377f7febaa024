"""Runs ablations: our own policy, and Pollux, with a part removed or under harder conditions.

Each variant is compared with the unchanged policy on the same jobs.  An error enters twice: owners are wrong on the
length of their jobs by up to that much, and every measurement of speed and gradient noise carries it (log-normal).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from elastane.models.history import save_pool
from elastane.sim.evaluation.outcomes import MEAN_JCT, Outcome
from elastane.sim.evaluation.protocol import Cell, Protocol
from elastane.sim.evaluation.statistics import Difference, paired
from elastane.sim.evaluation.study import Runner, outcomes_of
from elastane.sim.history import gathered
from elastane.sim.result import RunResult
from elastane.sim.spec import RunSpec

OURS, THEIRS = "elastane", "pollux"
RESTARTS_S = (1.0, 30.0, 120.0)
ERRORS = (0.0, 0.1, 0.2, 0.4)
_PAST = 1_000_000
"""Added to a seed, so that the week from which history comes has no job in common with those measured."""

Change = Callable[[RunSpec], RunSpec]


@dataclass(frozen=True)
class Variant:
    """One policy under one change; ``with_history``: of another week."""

    name: str
    policy: str
    change: Change
    with_history: bool = False


@dataclass(frozen=True)
class Ablation:
    """A variant with its mean JCT against the unchanged policy, and against Pollux under the same change."""

    variant: Variant
    against_itself: Difference | None
    against_pollux: Difference | None


def as_it_is(spec: RunSpec) -> RunSpec:
    """Returns the policy without any change: the reference of an ablation."""
    return spec


def restart(seconds: float) -> Change:
    """Makes a change under which every start and move costs so many seconds."""
    return lambda spec: replace(spec, physics=replace(spec.physics, restart_s=seconds))


def error(fraction: float) -> Change:
    """Makes a change under which declarations and measurements are wrong by this fraction."""
    return lambda spec: replace(
        spec, declare_error=fraction, physics=replace(spec.physics, observation_noise=fraction)
    )


def variants() -> tuple[Variant, ...]:
    """Returns all variants, the unchanged policies first."""
    ours = [
        Variant("as it is", OURS, as_it_is),
        Variant("with history", OURS, as_it_is, with_history=True),
        Variant("length of jobs unknown", OURS, lambda spec: replace(spec, declare="nothing")),
        Variant("without hysteresis", f"{OURS}(horizon_s=1e9)", as_it_is),
        Variant("without bound on waiting", f"{OURS}(bound=0)", as_it_is),
    ]
    both = [
        Variant(name, policy, change)
        for name, change in (
            *((f"restart {seconds:g} s", restart(seconds)) for seconds in RESTARTS_S),
            *((f"error {fraction:.0%}", error(fraction)) for fraction in ERRORS),
        )
        for policy in (OURS, THEIRS)
    ]
    return (*ours, Variant("as it is", THEIRS, as_it_is), *both)


def ablate(protocol: Protocol, run: Runner) -> tuple[Ablation, ...]:
    """Runs every variant on every workload at its middle load."""
    cells = _middle(protocol.cells)
    with TemporaryDirectory(prefix="elastane-history-") as folder:
        past = _remembered(protocol, cells, Path(folder), run)
        chosen = variants()
        specs = [
            _spec(variant, protocol, cell, seed, past)
            for variant in chosen
            for cell in cells
            for seed in protocol.seeds
        ]
        # Several variants are the same run: an error of 0 %, or the restart time that all pay anyway.
        distinct = list(dict.fromkeys(specs))
        outcomes = dict(zip(distinct, outcomes_of(distinct, run), strict=True))
    each = len(cells) * len(protocol.seeds)
    means = {
        (variant.name, variant.policy): _by_seed(
            [outcomes[spec] for spec in specs[i * each : (i + 1) * each]], len(protocol.seeds)
        )
        for i, variant in enumerate(chosen)
    }
    return tuple(_ablation(variant, means) for variant in chosen)


def _middle(cells: Sequence[Cell]) -> list[Cell]:
    by_workload: dict[str, list[Cell]] = {}
    for cell in cells:
        by_workload.setdefault(cell.workload, []).append(cell)
    return [sorted(group, key=lambda cell: cell.load)[len(group) // 2] for group in by_workload.values()]


def _spec(variant: Variant, protocol: Protocol, cell: Cell, seed: int, past: Mapping[Cell, str]) -> RunSpec:
    spec = variant.change(protocol.spec(variant.policy, cell, seed))
    return replace(spec, history=past[cell]) if variant.with_history else spec


def _remembered(protocol: Protocol, cells: Sequence[Cell], folder: Path, run: Runner) -> dict[Cell, str]:
    """Makes a history for every cell, from jobs of the same kind that are not measured in it."""
    specs = [protocol.spec(OURS, cell, protocol.seeds[0] + _PAST) for cell in cells]
    files = {cell: str(folder / f"{index}.json") for index, cell in enumerate(cells)}

    def remember(index: int, result: RunResult) -> None:
        save_pool(gathered([result]), Path(files[cells[index]]))

    run(specs, remember)
    return files


def _by_seed(outcomes: Sequence[Outcome], seeds: int) -> list[float | None]:
    """Returns the geometric mean over cells of the mean JCT, by seed, so that every workload counts the same."""
    found: list[float | None] = []
    for place in range(seeds):
        values = [outcome.figures[MEAN_JCT.name] for outcome in outcomes[place::seeds]]
        known = [value for value in values if value is not None]
        whole = len(known) == len(values)
        found.append(math.exp(sum(map(math.log, known)) / len(known)) if whole else None)
    return found


def _ablation(variant: Variant, means: Mapping[tuple[str, str], list[float | None]]) -> Ablation:
    mine = means[variant.name, variant.policy]
    own = means["as it is", THEIRS if variant.policy == THEIRS else OURS]
    theirs = means.get((variant.name, THEIRS), means["as it is", THEIRS])
    return Ablation(
        variant,
        paired(mine, own, relative=True),
        None if variant.policy == THEIRS else paired(mine, theirs, relative=True),
    )
