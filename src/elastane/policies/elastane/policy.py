"""Elastane's own policy minimises the sum of completion times: goodput weighted by shadow prices, bounded waiting.

Pollux maximises goodput and ignores remaining work; SRTF uses remaining work and ignores goodput.  Here the speed-up
curves and the remaining work of all unfinished jobs give a shadow price for a second of each job's work
(``shadow_prices``), and GPUs are divided so that

    Σ  price_j × speed-up_j(a_j) × (1 − cost of moving)

is largest.  Jobs that are about to take more than ``bound`` times as long as with an equal share go first
(``waiting_bound``).  A job that was never measured counts as the shortest, so that it starts at once and its speed
becomes known; one of unknown length gets a length from those of finished jobs (``unknown_length``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from elastane.models.speed import FloatArray
from elastane.policies.allocation import multi_type
from elastane.policies.allocation.multi_type import Parts
from elastane.policies.allocation.problem import Problem
from elastane.policies.allocation.solve_and_compare import counts_of, explain
from elastane.policies.contract import Needs, Policy
from elastane.policies.elastane.expected_arrivals import RecentPeak
from elastane.policies.elastane.inputs import see
from elastane.policies.elastane.job_estimates import JobEstimates
from elastane.policies.elastane.move_cost import horizons_s, next_look_s, unsure, what_a_move_leaves
from elastane.policies.elastane.shadow_prices import shadow_prices
from elastane.policies.elastane.similar_jobs import SimilarJobs
from elastane.policies.elastane.sync_extrapolation import calmer
from elastane.policies.elastane.unknown_length import lengths
from elastane.policies.elastane.waiting_bound import Accounts, Guarantees, owed
from elastane.policies.elastane.waiting_bound_by_type import owed_on
from elastane.policies.options import OptionError
from elastane.policies.plan import Exact, Plan
from elastane.policies.reasons import Gpus, Job, said
from elastane.policies.view import Info, JobView, View

_TINY = 1e-12
_MOST_PASSES = 10
"""Solutions per decision at most: one may open room for a better one; nearly always the second is the last."""
_CLASSES = {"guaranteed": 4.0, "opportunistic": 0.25}
_MOST_STEPS = 10
_FIRST_OF_ALL = 1e3
"""Weight of guaranteed GPUs, relative to the largest value of anything else."""


@dataclass(frozen=True)
class Elastane(Policy):
    """Mean completion time by goodput, remaining work and the cost of moving, with a bound on waiting.

    Attributes:
        horizon_s: A restart must pay within this time, or as long as the job has stayed where it is if that is
            longer, or within what the job still needs.
        explore: A job may get at most this many times the GPUs it was ever seen with.
        first: A job that was never measured may get this many.
        crowd: Future arrivals assumed at least when long jobs are priced; raised by the recent peak number of jobs
            (``expected_arrivals``).
        caution: With k times the GPUs it was ever seen with, a job is assumed to gain at most k^caution; on several
            nodes less, if other jobs have gained less there (``multi_node_gain``).
        bound: No job takes longer than this many times its fair-share time, plus a restart; 0 promises nothing.
    """

    horizon_s: float = 450.0
    explore: float = 4.0
    first: int = 4
    crowd: float = 1.0
    caution: float = 0.8
    bound: float = 3.0

    name: ClassVar[str] = "elastane"
    title: ClassVar[str] = "Elastane"
    paper: ClassVar[str] = "this project"
    needs: ClassVar[Needs] = Needs(
        info=Info.SPEED | Info.REMAINING | Info.DEADLINE | Info.HISTORY,
        period_s=60.0,
        rebatch=True,
        profile=True,
    )
    elastic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.horizon_s <= 0.0 or self.explore < 1.0 or self.first < 1:
            raise OptionError("elastane: horizon_s must be above 0, explore and first at least 1")
        if self.crowd < 0.0 or (self.bound and self.bound < 1.0):
            raise OptionError("elastane: crowd must not be negative, and bound is 0 or at least 1")

    def decide(self, view: View) -> Plan:
        """Prices every job, divides the GPUs, and keeps the present division if that is no worse."""
        kin = SimilarJobs.of(view.memory).with_jobs(view)
        sight = see(calmer(kin.completed(view)), self.explore, self._first(view), self.caution)
        plain, outlook = sight.parts, sight.outlook
        accounts = Accounts.of(view.memory, view.now_s).carried_on(view, outlook)
        due = owed(accounts, outlook, multi_type.whole(plain).most, self.bound)
        accounts = accounts.owing(due, outlook)
        left_s = self._left_s(outlook, view)
        coming = RecentPeak.of(view.memory).with_jobs(len(view.jobs), view.now_s)
        prices = self._prices(outlook, left_s, coming)
        parts = multi_type.connected(tuple(self._weighed(part, prices) for part in plain))
        rows, there = multi_type.held_rows(parts), parts
        for _ in range(_MOST_PASSES):
            there = self._priced_parts(
                there, multi_type.holding(plain, there), outlook, left_s, due, view.now_s
            )
            better = multi_type.solve(there)
            if not multi_type.improves(there, better):
                break
            rows, there = better, multi_type.as_if(parts, better)
        given = Counter[int]()
        for mine in rows:
            given.update(counts_of(mine))
        whole = multi_type.whole(parts)
        return Plan(
            Exact(multi_type.grants_of(parts, rows)),
            explain={**explain(whole, given), **_reservations(multi_type.whole(plain), due, given)},
            memory={**accounts.memory(), **sight.memory, **coming.memory(), **kin.memory()},
            wake_s=self._wakes(view, due, [whole.jobs[row] for row in sorted(given)]),
        )

    def _wakes(self, view: View, due: Guarantees, given: Iterable[JobView]) -> tuple[float, ...]:
        """Returns when to decide again: a job's guarantee falls due, or a new measurement is expected."""
        sooner = min(view.now_s + due.next_s, next_look_s(given, view.now_s))
        return (sooner,) if np.isfinite(sooner) else ()

    def _first(self, view: View) -> int:
        """Returns the GPUs of a job that was never measured: an equal share, ``first`` at most."""
        return max(min(self.first, view.total_gpus // max(len(view.jobs), 1)), 1)

    def _left_s(self, outlook: JobEstimates, view: View) -> FloatArray:
        """Returns seconds left on one GPU; 0 for a job never measured, or measured only with far too small a batch."""
        left, untold = outlook.left_s.copy(), np.isnan(outlook.left_work)
        if untold.any():
            attained = np.array([job.ledger.service_at(view.now_s) for job in outlook.jobs])
            left[untold] = lengths(attained[untold], view.history)
        known = outlook.measured & ~np.array([unsure(job, view.now_s) for job in outlook.jobs], dtype=bool)
        out: FloatArray = np.where(known, left, 0.0)
        return out

    def _prices(self, outlook: JobEstimates, left_s: FloatArray, coming: RecentPeak) -> FloatArray:
        """Returns the shadow price of a second of one-GPU work of each job."""
        share = outlook.total_gpus / max(len(outlook.jobs), 1)
        weights = np.array([_weight(job) for job in outlook.jobs])
        ends_s = left_s / outlook.speedups_at(max(share, 1.0)) / weights
        # Among equals the older is first to finish, whatever they hold: a decision must not upset itself.
        jobs = outlook.jobs
        order = sorted(range(len(jobs)), key=lambda row: (-ends_s[row], -jobs[row].submit_s, jobs[row].id))
        # A job of unknown length may stay as long as any future arrival.
        crowd = max(self.crowd, coming.jobs(outlook.total_gpus)) + float(np.isnan(outlook.left_work).sum())
        rows = np.array(order, dtype=np.int64)
        return shadow_prices(outlook.curves, outlook.sizes, rows, weights, float(outlook.total_gpus), crowd)

    def _weighed(self, problem: Problem, prices: FloatArray) -> Problem:
        """Returns the problem with speed-ups multiplied by the price of the job's work."""
        if not problem.jobs or problem.one_node.shape[1] < 2:
            return problem
        worth = (prices / np.maximum(problem.one_gpu, _TINY))[:, None]
        one_node, several = problem.one_node * worth, problem.several * worth
        return replace(problem, one_node=one_node, several=several)

    def _priced_parts(
        self,
        parts: Parts,
        plain: Parts,
        outlook: JobEstimates,
        sizes_s: FloatArray,
        due: Guarantees,
        now_s: float,
    ) -> Parts:
        """Applies ``_priced`` to the problem of every accelerator type."""
        ample = _FIRST_OF_ALL * max(max(float(part.packed().max(initial=0.0)) for part in parts), _TINY)
        dues = owed_on(plain, outlook, due)
        each = zip(parts, plain, dues, strict=True)
        return tuple(self._priced(part, speeds, sizes_s, mine, ample, now_s) for part, speeds, mine in each)

    def _priced(
        self, problem: Problem, plain: Problem, sizes_s: FloatArray, due: Guarantees, ample: float, now_s: float
    ) -> Problem:
        """Adds to the problem the discount for moving, the cost of being suspended, and the guaranteed GPUs.

        A running job that loses everything pays for another start; a waiting one has to start anyway, for nothing.
        """
        speedups = plain.current_speedups() / np.maximum(plain.one_gpu, _TINY)
        left_s = np.maximum(sizes_s / np.maximum(speedups, 1.0), 1.0)
        restart_s = np.array([job.restart_s for job in plain.jobs])
        horizon_s = horizons_s(plain.jobs, self.horizon_s, now_s)
        another_start = problem.current_speedups() * restart_s / np.minimum(left_s, horizon_s)
        sizes = np.arange(problem.several.shape[1])
        extra = np.where(plain.running[:, None] & (sizes > 0), another_start[:, None], 0.0)
        late = np.flatnonzero(due.gpus)
        if late.size:
            extra[late] += ample * np.minimum(sizes / due.gpus[late][:, None], 1.0)
            extra[np.ix_(_would_stand_in_the_way(plain, due), sizes > 0)] = -ample
        factor = what_a_move_leaves(plain, sizes_s, horizon_s, now_s)
        return replace(problem, factor=factor, extra=extra, urgent=tuple(int(row) for row in late))


def _would_stand_in_the_way(plain: Problem, due: Guarantees) -> NDArray[np.bool_]:
    """Masks waiting jobs that could not be stopped again, while a job with guaranteed GPUs is waiting as well."""
    waits = ~plain.running
    if not (waits & (due.gpus > 0)).any():
        return np.zeros(len(plain.jobs), dtype=bool)
    stays = np.array([not job.request.preemptible for job in plain.jobs])
    out: NDArray[np.bool_] = waits & stays & (due.gpus == 0)
    return out


def _reservations(plain: Problem, due: Guarantees, rows: Container[int]) -> dict[str, str]:
    """Explains jobs that are kept waiting so that a job with guaranteed GPUs can start first."""
    first = next((plain.jobs[row].id for row in np.flatnonzero(due.gpus) if row not in rows), None)
    if first is None:
        return {}
    waiting = [row for row in np.flatnonzero(_would_stand_in_the_way(plain, due)) if row not in rows]
    return {
        plain.jobs[row].id: said("could not be stopped again, and ", Job(first), " is owed ", Gpus(), " first")
        for row in waiting
    }


def _weight(job: JobView) -> float:
    """Returns the weight of this job's completion time: its own weight × class × 2 per step of priority."""
    steps = min(max(job.priority, -_MOST_STEPS), _MOST_STEPS)
    return max(job.weight, _TINY) * _CLASSES.get(job.klass, 1.0) * 2.0**steps


@dataclass(frozen=True)
class ElastaneOracle(Elastane):
    """The policy with true speeds and remaining work: it shows what better estimates could still bring."""

    name: ClassVar[str] = "elastane-oracle"
    title: ClassVar[str] = "Elastane, all-knowing"
    needs: ClassVar[Needs] = replace(Elastane.needs, oracle=True, profile=False)
