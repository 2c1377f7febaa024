"""Divides a cluster with several accelerator types: one ``Problem`` (a *part*) for each, solved together.

All parts have the same jobs in the same order.  A job holds GPUs of one type at most; its speed on them is known to
the parts of the other types as ``Problem.elsewhere``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from elastane.cluster import Grant
from elastane.models.speed import FloatArray, IntArray
from elastane.policies.allocation import solve_and_compare
from elastane.policies.allocation.defragment import tidied
from elastane.policies.allocation.layout import lay_out
from elastane.policies.allocation.packing import packings
from elastane.policies.allocation.problem import Frame, Problem
from elastane.policies.allocation.solve_and_compare import Rows
from elastane.policies.allocation.solver import best_counts
from elastane.policies.allocation.speedups import rate_tables
from elastane.policies.allocation.typed import best_division

Parts = tuple[Problem, ...]
PartRows = tuple[Rows, ...]


def part_of(
    frame: Frame, kind: int, gpu_type: str, most: IntArray, unit: FloatArray, typical: FloatArray
) -> Problem:
    """Builds the problem of one accelerator type.

    Args:
        frame: The whole round; its jobs with their speeds on this type.
        kind: The number of the type.
        gpu_type: Its name.
        most: GPUs of it that each job may have.
        unit: Work per second that counts as 1, per job.
        typical: Assumed speed of one GPU of this type for a job that was never measured, in that unit.
    """
    here = np.flatnonzero(frame.kinds == kind)
    part = replace(
        frame,
        node_ids=tuple(frame.node_ids[node] for node in here),
        node_gpus=frame.node_gpus[here],
        kinds=np.zeros(len(here), dtype=np.int64),
        usable=frame.usable[:, here],
        held=frame.held[:, here],
        most=most,
    )
    one_node, several = _tables(part, gpu_type, unit, typical)
    problem = part.problem(one_node, several, np.ones_like(several), 1.0)
    return replace(problem, reference=np.ones(len(frame.jobs)))


def _tables(part: Frame, gpu_type: str, unit: FloatArray, typical: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns work per second for every size, on one node and on several; unmeasured jobs scale perfectly."""
    per_node = max(int(part.node_gpus.max(initial=1)), 1)
    largest = np.maximum(part.most, part.held.sum(axis=1))
    sizes = np.arange(int(largest.max(initial=1)) + 1)
    one_node = np.where(sizes <= per_node, sizes, 0.0) * typical[:, None]
    several = np.where(sizes >= 2, sizes, 0.0) * typical[:, None]
    known = [(row, speed) for row, job in enumerate(part.jobs) if (speed := job.speed) is not None]
    tables = rate_tables(
        [speed for _, speed in known], [int(largest[row]) for row, _ in known], per_node, gpu_type
    )
    for (row, _), table in zip(known, tables, strict=True):
        for target, source in ((one_node, table.one_node), (several, table.several)):
            reach = min(len(sizes), len(source))
            target[row] = 0.0
            target[row, :reach] = source[:reach] / unit[row]
    return one_node, several


def solve(parts: Parts) -> PartRows:
    """Solves for types, counts and places; sizes that do not pack well are tried only where GPUs stay idle."""
    total = sum(int(part.node_gpus.sum()) for part in parts)
    choices = zip(*(packings(part, part.count_values()) for part in parts), strict=True)
    best = _laid_out(parts, next(choices))
    for values in choices:
        if sum(sum(row.values()) for mine in best for row in mine.values()) >= total:
            break
        rows = _laid_out(parts, values)
        best = rows if objective(parts, rows) > objective(parts, best) else best
    return best


def _laid_out(parts: Parts, values: Sequence[FloatArray]) -> PartRows:
    """Solves for the best counts by these values, and lays them out on nodes, defragmented."""
    totals = [int(part.node_gpus.sum()) for part in parts]
    if len(parts) == 1:
        counts: list[IntArray] = [best_counts(values[0], totals[0])]
    else:
        found = best_division(values, totals)
        counts = [np.where(found.kinds == kind, found.counts, 0) for kind in range(len(parts))]
    each = zip(parts, counts, strict=True)
    return tuple(tidied(part, lay_out(part, wanted), wanted) for part, wanted in each)


def objective(parts: Parts, rows: PartRows) -> float:
    """Returns the summed objective of all parts, with the discount for jobs that move."""
    return sum(solve_and_compare.objective(part, mine) for part, mine in zip(parts, rows, strict=True))


def connected(parts: Parts) -> Parts:
    """Returns the parts with ``elsewhere`` filled in: what each job does with GPUs of the other types."""
    if len(parts) == 1:
        return parts
    alone = [replace(part, elsewhere=None) for part in parts]
    speedups = np.stack([part.current_speedups() for part in alone])
    return tuple(
        replace(part, elsewhere=speedups.sum(axis=0) - own) for part, own in zip(alone, speedups, strict=True)
    )


def holding(parts: Parts, there: Parts) -> Parts:
    """Returns the parts with what jobs hold taken from ``there``."""
    held = tuple(replace(part, held=other.held) for part, other in zip(parts, there, strict=True))
    return connected(held)


def as_if(parts: Parts, rows: PartRows) -> Parts:
    """Returns the parts as they would be if this layout were already in place."""
    there = [solve_and_compare.as_if(part, mine) for part, mine in zip(parts, rows, strict=True)]
    pinned = np.logical_or.reduce([part.pinned for part in there])
    return connected(tuple(replace(part, pinned=pinned) for part in there))


def held_rows(parts: Parts) -> PartRows:
    """Returns the present layout."""
    return tuple(solve_and_compare.as_rows(part.held) for part in parts)


def improves(parts: Parts, rows: PartRows) -> bool:
    """Tells whether a layout is better than the present one by more than rounding."""
    if len(parts) == 1:
        return solve_and_compare.improves(parts[0], rows[0])
    # What jobs without GPUs of a type add to its sum is the same now and then.
    now, then = objective(parts, held_rows(parts)), objective(parts, rows)
    return then > now + 1e-9 * abs(now)


def grants_of(parts: Parts, rows: PartRows) -> dict[str, Grant]:
    """Turns the layouts of all types into grants, by job id."""
    found: dict[str, Grant] = {}
    for part, mine in zip(parts, rows, strict=True):
        found.update(solve_and_compare.grants_of(part, mine))
    return found


def whole(parts: Parts) -> Problem:
    """Joins all parts into one problem, for questions that do not depend on speed: jobs, GPUs, limits.

    Its speeds are those of the first type only and mean nothing.
    """
    if len(parts) == 1:
        return parts[0]
    return replace(
        parts[0],
        node_ids=tuple(node for part in parts for node in part.node_ids),
        node_gpus=np.concatenate([part.node_gpus for part in parts]),
        held=np.concatenate([part.held for part in parts], axis=1),
        usable=np.concatenate([part.usable for part in parts], axis=1),
        kinds=np.concatenate([np.full(len(part.node_ids), kind) for kind, part in enumerate(parts)]),
        most=np.maximum.reduce([part.most for part in parts]),
    )
