"""Optimus (EuroSys'18): give the next task to the job whose remaining time it shortens most.

Every job first gets one worker (and one parameter server, if it uses them); then ``climb`` hands out the rest.
``optimus`` uses online estimates of remaining work and speed; ``optimus-oracle``, the baseline of Pollux's
evaluation, reads the truth.  How parameters are divided among the servers of a job is in
``models.parameter_assignment``.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import ClassVar

from elastane.policies.contract import Needs, Policy
from elastane.policies.optimus.fit_to_nodes import counts_may_not_fit, settle
from elastane.policies.optimus.greedy import Claim, climb
from elastane.policies.optimus.initial_allocation import InitialAllocation
from elastane.policies.optimus.resource_pool import ResourcePool
from elastane.policies.plan import Plan, Spread, Want, Wants
from elastane.policies.view import Info, View

UNKNOWN_S = 3600.0
"""Remaining time assumed for a job on its first tasks when nothing is known about any job."""


@dataclass(frozen=True)
class Optimus(Policy):
    """Marginal gains from estimates.

    A job whose speed is unknown keeps its first tasks, to learn.  One whose remaining work is unknown counts as
    a typical job: on its first tasks it would take the median of the times the known jobs would take on theirs.
    So it neither starves beside known jobs nor outbids them.

    Attributes:
        young_factor: Multiplies the gain of jobs with less than ``young_s`` seconds of service (paper: 0.95); 1 is off.
        young_s: What counts as young.
        pair_steps: Try a server and a worker together where neither alone gains.  The published rule gives up
            there; steps it would have taken are not affected.
        by_share: Divide gains by the share of the dominant resource (in GPUs' worth) in place of the published
            bare amount, which counts a CPU core like a GPU.
        shrink_last: Give the last job that does not fit evenly what does, as the authors' code does; otherwise
            it is paused like the others, even if it is alone in the cluster.
    """

    young_factor: float = 1.0
    young_s: float = 600.0
    pair_steps: bool = True
    by_share: bool = False
    shrink_last: bool = True

    name: ClassVar[str] = "optimus"
    title: ClassVar[str] = "Optimus"
    paper: ClassVar[str] = "Peng et al., EuroSys'18"
    needs: ClassVar[Needs] = Needs(
        info=Info.REMAINING | Info.SPEED, period_s=600.0, on_arrival=False, on_finish=False
    )
    elastic: ClassVar[bool] = True

    def decide(self, view: View) -> Plan:
        """Starts every job with its least tasks in order of arrival, then grows jobs by marginal gain."""
        stock = ResourcePool(view.nodes.values(), self.by_share)
        explain: dict[str, str] = {}
        maker = InitialAllocation(view, stock)
        claims = maker.starts(explain)
        self._look(view, maker, claims)
        climb(claims, stock, self.pair_steps)
        claims.sort(key=lambda claim: stock.share(claim.need))
        wants = {claim.job_id: _want(claim) for claim in claims}
        if counts_may_not_fit(view, wants):
            return Plan(settle(view, wants, self.shrink_last, explain), explain=explain)
        return Plan(Wants(wants), explain=explain)

    def _look(self, view: View, maker: InitialAllocation, claims: list[Claim]) -> None:
        """Fills in speed and remaining work of the claims that may grow."""
        unknown: list[Claim] = []
        for claim in claims:
            job = view.jobs[claim.job_id]
            if job.ledger.held_at(view.now_s) < self.young_s:
                claim.factor = self.young_factor
            claim.surface = maker.surface(job, claim)
            remaining = job.remaining
            if claim.surface is None:
                continue
            if remaining is None:
                unknown.append(claim)
            else:
                claim.work = remaining.mean
        if unknown:
            typical_s = self._typical_s(view, maker)
            for claim in unknown:
                claim.work = typical_s * maker.least_rate(view.jobs[claim.job_id])

    def _typical_s(self, view: View, maker: InitialAllocation) -> float:
        """Returns the median of the times that all jobs with known work and speed would take on their least tasks."""
        known = [(job.remaining, maker.least_rate(job)) for job in view.jobs.values()]
        times_s = [left.mean / rate for left, rate in known if left is not None and rate > 0.0]
        return median(times_s) if times_s else UNKNOWN_S


def _want(claim: Claim) -> Want:
    spread = Spread.EMPTIEST if claim.server is None else Spread.BALANCED
    return Want(claim.workers, claim.servers, spread=spread)


@dataclass(frozen=True)
class OptimusOracle(Optimus):
    """Optimus's allocation with true remaining work and true speed, as in Pollux's evaluation."""

    name: ClassVar[str] = "optimus-oracle"
    title: ClassVar[str] = "Optimus+Oracle"
    needs: ClassVar[Needs] = Needs(
        info=Info.REMAINING | Info.SPEED, period_s=60.0, on_arrival=False, on_finish=False, oracle=True
    )
