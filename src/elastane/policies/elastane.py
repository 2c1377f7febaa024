"""Elastane's own policy, first version: goodput and remaining work together.

Pollux maximises goodput without knowing how much is left; SRTF knows how much is left and nothing of goodput.  Here
every job is worth its goodput relative to one GPU, weighted by how soon it can be out of the way:

=========  ======================================================================================================
symbol     meaning
=========  ======================================================================================================
size_j     remaining work ÷ goodput on one GPU: seconds still to go on one GPU
i, m       rank of the job by size (1 is the largest) among m jobs
θ_i        (i/m)^(1/(1−q)) − ((i−1)/m)^(1/(1−q)): the share that minimises mean flow time when k GPUs give a
           speed-up of k^q (heSRPT, Berg et al.)
weight_j   θ_i^(1−q)
value      Σ weight_j × goodput_j(a_j) / goodput_j(one GPU), a move counting 1 − restart ÷ horizon
=========  ======================================================================================================

A job that was never measured counts as the smallest, so that it starts at once and its speed becomes known; one of
which nobody can tell how much is left counts by the service it has had, as if it were half way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from elastane.models.speed import FloatArray
from elastane.policies.contract import Needs, Policy
from elastane.policies.division.problem import Problem, build_problem
from elastane.policies.division.settle import as_if, as_rows, explain, grants_of, improves, solve
from elastane.policies.options import OptionError
from elastane.policies.plan import Exact, Plan
from elastane.policies.view import Info, JobView, View

_TINY = 1e-12
_MOST_PASSES = 10
"""One answer may open room for a better one, which the next round would find; nearly always the second is the last."""


@dataclass(frozen=True)
class Elastane(Policy):
    """Mean completion time by goodput, remaining work and the cost of moving.

    Attributes:
        q: Exponent of the speed-up k^q that jobs are taken to have; between 0 and 1, larger favours small jobs less.
        horizon_s: A restart must pay within this time, or within what the job still needs.
        explore: A job may get at most this many times the GPUs it was ever seen with.
    """

    q: float = 0.8
    horizon_s: float = 300.0
    explore: float = 4.0

    name: ClassVar[str] = "elastane"
    title: ClassVar[str] = "Elastane"
    paper: ClassVar[str] = "this project"
    needs: ClassVar[Needs] = Needs(
        info=Info.SPEED | Info.REMAINING, period_s=60.0, on_arrival=False, on_finish=False, rebatch=True
    )
    elastic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0.0 < self.q < 1.0:
            raise OptionError(f"elastane: q lies between 0 and 1, not {self.q}")
        if self.horizon_s <= 0.0 or self.explore < 1.0:
            raise OptionError("elastane: horizon_s must be above 0 and explore at least 1")

    def decide(self, view: View) -> Plan:
        """Weigh every job, divide the GPUs, and keep the present division if that is no better."""
        problem = build_problem(view, 1.0, 0.0, True, self.explore)
        sizes_s = np.array([_size_s(job, view.now_s) for job in problem.jobs])
        problem, alone = self._weighed(problem, sizes_s)
        rows, there = as_rows(problem.held), problem
        for _ in range(_MOST_PASSES):
            there = self._priced(there, sizes_s, alone)
            better = solve(there)
            if not improves(there, better):
                break
            rows, there = better, as_if(problem, better)
        return Plan(Exact(grants_of(problem, rows)), explain=explain(problem, rows))

    def _weighed(self, problem: Problem, sizes_s: FloatArray) -> tuple[Problem, FloatArray]:
        """The problem with weight × relative goodput as what a job gains, and what one GPU alone gains it."""
        if not problem.jobs or problem.one_node.shape[1] < 2:
            return problem, np.ones(len(problem.jobs))
        weights = flow_weights(sizes_s, self.q)
        worth = (weights / np.maximum(problem.one_node[:, 1], _TINY))[:, None]
        return replace(problem, one_node=problem.one_node * worth, several=problem.several * worth), weights

    def _priced(self, problem: Problem, sizes_s: FloatArray, alone: FloatArray) -> Problem:
        """What is left of a gain after the move; a job that waits has to start some time, so that costs nothing."""
        speedups = problem.current_speedups() / np.maximum(alone, _TINY)
        left_s = np.maximum(sizes_s / np.maximum(speedups, 1.0), 1.0)
        restart_s = np.array([job.restart_s for job in problem.jobs])
        paid = np.clip(1.0 - restart_s / np.minimum(left_s, self.horizon_s), 0.0, 1.0)
        return replace(problem, factor=np.where(problem.held_total > 0, paid, 1.0))


def flow_weights(sizes_s: FloatArray, q: float) -> FloatArray:
    """θ_i^(1−q) for every job; ties in size by the order given."""
    count = len(sizes_s)
    rank = np.empty(count)
    rank[np.argsort(-sizes_s, kind="stable")] = np.arange(1, count + 1)
    power = 1.0 / (1.0 - q)
    share = (rank / count) ** power - ((rank - 1.0) / count) ** power
    out: FloatArray = share ** (1.0 - q)
    return out


def _size_s(job: JobView, now_s: float) -> float:
    """Seconds left on one GPU; 0 for a job that was never measured."""
    speed, left = job.speed, job.remaining
    if speed is None:
        return 0.0
    if left is None:
        return job.ledger.service_at(now_s)
    rate = float(speed.rates(np.array([1]), np.array([1]))[0])
    return left.mean / max(rate, _TINY)
