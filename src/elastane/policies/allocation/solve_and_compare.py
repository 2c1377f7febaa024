"""Solves a problem (counts, then places) and compares the answer with the present layout.

Callers keep the present layout unless the answer improves on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elastane.cluster import Grant
from elastane.policies.allocation.layout import lay_out
from elastane.policies.allocation.objective import contribution
from elastane.policies.allocation.problem import Problem
from elastane.policies.allocation.solver import best_counts
from elastane.policies.reasons import Gpus, Job, Part, are, listed, said
from elastane.policies.view import Ability

Rows = dict[int, dict[int, int]]
"""GPUs per node, per job, both by their number in the problem."""

_MOST_PASSES = 5
_MOVES = Ability.SUSPEND | Ability.MIGRATE


def solve(problem: Problem) -> Rows:
    """Solves for counts and lays them out on nodes.

    Counts ignore accelerator types, so with several types the layout may fall short of them.  Then the problem is
    solved again from that layout until nothing improves; otherwise the next round would move jobs once more.
    """
    total = int(problem.node_gpus.sum())
    rows = lay_out(problem, best_counts(problem.count_values(), total))
    if np.unique(problem.kinds).size <= 1:
        return rows
    for _ in range(_MOST_PASSES - 1):
        there = as_if(problem, rows)
        better = lay_out(there, best_counts(there.count_values(), total))
        if not improves(there, better):
            break
        rows = better
    return rows


def as_if(problem: Problem, rows: Rows) -> Problem:
    """Returns the problem as it would be if this layout were in place; jobs that cannot be moved are then pinned."""
    held = np.zeros_like(problem.held)
    pinned = problem.pinned.copy()
    for j, row in rows.items():
        job = problem.jobs[j]
        held[j, list(row)] = list(row.values())
        pinned[j] |= not job.request.preemptible or job.abilities & _MOVES != _MOVES
    return replace(problem, held=held, pinned=pinned)


def improves(problem: Problem, rows: Rows) -> bool:
    """Tells whether a layout beats the present one by more than rounding, so that equal layouts never alternate."""
    present = problem.present_value()
    return objective(problem, rows) > present + 1e-9 * abs(present)


def objective(problem: Problem, rows: Rows) -> float:
    """Returns the sum of contributions of a layout, with the discount for jobs that move."""
    speedups = np.zeros(len(problem.jobs))
    for job, row in rows.items():
        speedups[job] = problem.speedup_of(job, len(row), sum(row.values()))
        if not problem.stays(job, row):
            speedups[job] *= problem.factor[job, sum(row.values())]
    value = float(contribution(speedups, problem.p).sum())
    if problem.extra is not None:
        value += sum(float(problem.extra[job, sum(row.values())]) for job, row in rows.items())
    return value


def grants_of(problem: Problem, rows: Rows) -> dict[str, Grant]:
    """Turns a layout into grants by job id; a job that stays keeps its identical grant."""
    grants = {}
    for j, row in rows.items():
        job = problem.jobs[j]
        counts = {problem.node_ids[n]: c for n, c in row.items() if c}
        held = {part.node: part.workers for part in job.grant.slices} if job.grant else {}
        same = job.grant is not None and counts == held
        grants[job.id] = job.grant if same and job.grant else Grant.of(sorted(counts.items()))
    return grants


def explain(problem: Problem, given: Mapping[int, int]) -> dict[str, str]:
    """Says for each job without GPUs why it has none; ``given`` are GPUs by row."""
    total = int(problem.node_gpus.sum())
    jobs = len(problem.jobs)
    crowd = said("1 job has " if jobs == 1 else f"{jobs} jobs share ", Gpus(total))
    stay = np.flatnonzero(problem.pinned & (problem.held_total > 0))
    had, free = total - int(problem.held_total[stay].sum()), total - sum(given.values())
    reasons: dict[str, str] = {}
    for j, job in enumerate(problem.jobs):
        least, most = int(problem.least[j]), int(problem.most[j])
        if j in given:
            continue
        if least > most:
            reasons[job.id] = said("needs ", Gpus(least), f" of one type, at most {most} that it may use exist")
        elif least > had:
            reasons[job.id] = _taken(least, had, [problem.jobs[row].id for row in stay])
        elif not problem.factor[j].any():
            reasons[job.id] = said("too young for a start to pay yet; ", crowd)
        elif least > free:
            short = said("needs ", Gpus(least), f", {are(free, of=total)} free")
            reasons[job.id] = said(short, "; to make room now would cost the others more than it gains")
        else:
            reasons[job.id] = said(crowd, "; running it now would cost the others more than it gains")
    return reasons


def counts_of(rows: Rows) -> dict[int, int]:
    """Returns the GPUs of each job in a layout, by row."""
    return {job: sum(row.values()) for job, row in rows.items()}


def _taken(least: int, had: int, stay: Sequence[str]) -> str:
    """Says that pinned jobs, which can be neither suspended nor shrunk, leave fewer GPUs than a job needs."""
    named: list[Part] = [Job(job) for job in stay[:3]]
    if len(stay) > 3:
        named.append(f"{len(stay) - 3} more")
    runs = "runs" if len(stay) == 1 else "run"
    return said(
        "needs ",
        Gpus(least),
        f", {had or 'none'} can be had while ",
        *([listed(named[:-1]), " and "] if len(named) > 1 else []),
        named[-1],
        f" {runs}, which cannot be suspended",
    )


def as_rows(state: NDArray[np.integer[Any]]) -> Rows:
    """Converts an array of GPUs per (job, node) into a layout, without jobs that have none."""
    return {
        int(job): {int(node): int(state[job, node]) for node in np.flatnonzero(state[job])}
        for job in np.flatnonzero(state.any(axis=1))
    }
