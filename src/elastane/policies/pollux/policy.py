"""Pollux (OSDI'21): divide GPUs so that the power mean of all jobs' goodput speed-ups is largest.

Jobs choose their own batch for what they get.  ``search=solver`` (the default) solves the count problem exactly or
nearly so and packs the answer; ``search=genetic`` is the published genetic algorithm over whole placements.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from elastane.cluster import Grant
from elastane.policies.contract import Needs, Policy
from elastane.policies.options import OptionError
from elastane.policies.plan import Exact, Plan
from elastane.policies.pollux.genetic import as_rows, evolve
from elastane.policies.pollux.layout import lay_out
from elastane.policies.pollux.objective import contribution
from elastane.policies.pollux.problem import Problem, build_problem
from elastane.policies.pollux.solver import best_counts
from elastane.policies.view import Ability, Info, View

Rows = dict[int, dict[int, int]]
"""GPUs per node, per job, both by their number in the problem."""

_MOST_PASSES = 5
_MOVES = Ability.SUSPEND | Ability.MIGRATE


@dataclass(frozen=True)
class Pollux(Policy):
    """Co-adaptive scheduling for goodput.

    Attributes:
        p: Exponent of the power mean; more negative is fairer.
        search: ``solver`` or ``genetic``.
        delay_s: Restart time δ assumed in the discount for moving.
        explore: A job may get at most this many times the GPUs it was ever seen with.
        fair_on_one_node: Value the fair share as if it stood on one node, as the published code does.
        population: Of the genetic search.
        generations: Of the genetic search.
    """

    p: float = -1.0
    search: str = "solver"
    delay_s: float = 30.0
    explore: float = 2.0
    fair_on_one_node: bool = True
    population: int = 100
    generations: int = 100

    name: ClassVar[str] = "pollux"
    title: ClassVar[str] = "Pollux"
    paper: ClassVar[str] = "Qiao et al., OSDI'21"
    needs: ClassVar[Needs] = Needs(
        info=Info.SPEED, period_s=60.0, on_arrival=False, on_finish=False, rebatch=True
    )
    elastic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.search not in ("solver", "genetic"):
            raise OptionError(f"pollux: search must be solver or genetic, not {self.search!r}")
        if self.population < 2 or self.generations < 1:
            raise OptionError("pollux: a genetic search needs a population of 2 and 1 generation at least")

    def decide(self, view: View) -> Plan:
        """Search for a better division, and keep the present one if there is none."""
        problem = build_problem(view, self.p, self.delay_s, self.fair_on_one_node, self.explore)
        memory: dict[str, Any] | None = None
        if self.search == "genetic":
            rows, memory = evolve(problem, view.memory, self.population, self.generations, view.seed)
        else:
            rows = _solve(problem)
        if not _improves(problem, rows):
            rows = as_rows(problem.held)
        return Plan(Exact(_grants(problem, rows)), explain=_explain(problem, rows), memory=memory)


def _solve(problem: Problem) -> Rows:
    """Counts, laid out.

    Counts know nothing of accelerator types, so where there are several the layout may fall short of them; then
    the answer is taken up again from where it stands, or the next round would move jobs once more.
    """
    total = int(problem.node_gpus.sum())
    rows = lay_out(problem, best_counts(problem.count_values(), total))
    if np.unique(problem.kinds).size <= 1:
        return rows
    for _ in range(_MOST_PASSES - 1):
        there = _as_if(problem, rows)
        better = lay_out(there, best_counts(there.count_values(), total))
        if not _improves(there, better):
            break
        rows = better
    return rows


def _as_if(problem: Problem, rows: Rows) -> Problem:
    """The same problem with the answer already in place; jobs that stay once they run then stay."""
    held = np.zeros_like(problem.held)
    pinned = problem.pinned.copy()
    for j, row in rows.items():
        job = problem.jobs[j]
        held[j, list(row)] = list(row.values())
        pinned[j] |= not job.request.preemptible or job.abilities & _MOVES != _MOVES
    return replace(problem, held=held, pinned=pinned)


def _improves(problem: Problem, rows: Rows) -> bool:
    """Whether this is better than the present state by more than rounding, which would exchange equals for ever."""
    present = float(contribution(problem.current_speedups(), problem.p).sum())
    return objective(problem, rows) > present + 1e-9 * abs(present)


def objective(problem: Problem, rows: Rows) -> float:
    """Σ of contributions of a layout, moves discounted."""
    speedups = np.zeros(len(problem.jobs))
    for job, row in rows.items():
        speedups[job] = problem.speedup_of(job, len(row), sum(row.values()))
        if any(int(problem.held[job, n]) != c for n, c in row.items()) or len(row) != int(
            np.count_nonzero(problem.held[job])
        ):
            speedups[job] *= problem.factor[job]
    return float(contribution(speedups, problem.p).sum())


def _grants(problem: Problem, rows: Rows) -> dict[str, Grant]:
    grants = {}
    for j, row in rows.items():
        job = problem.jobs[j]
        counts = {problem.node_ids[n]: c for n, c in row.items() if c}
        held = {part.node: part.workers for part in job.grant.slices} if job.grant else {}
        same = job.grant is not None and counts == held
        grants[job.id] = job.grant if same and job.grant else Grant.of(sorted(counts.items()))
    return grants


def _explain(problem: Problem, rows: Rows) -> dict[str, str]:
    total = int(problem.node_gpus.sum())
    crowd = f"{len(problem.jobs)} jobs share {total} GPUs"
    reasons = {}
    for j, job in enumerate(problem.jobs):
        least, most = int(problem.least[j]), int(problem.most[j])
        if rows.get(j):
            continue
        if least > most:
            reasons[job.id] = f"needs {least} GPUs of one type, at most {most} that it may use exist"
        elif problem.factor[j] == 0.0:
            reasons[job.id] = f"too young for a start to pay yet; {crowd}"
        else:
            reasons[job.id] = f"{crowd}; running it now would cost the others more than it gains"
    return reasons
