"""SLAQ (SoCC'17): every job runs with its least, and each further GPU goes where it lowers a normalised loss most.

``loss_curves`` foretells losses, ``gains`` hands out GPUs.  The paper's cores cost nothing to move.  Here a change is
charged with the job's restart, and is made only if all jobs together gain more by it than by staying as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from elastane.cluster import Grant
from elastane.models.speed import FloatArray
from elastane.policies.contract import Needs, Policy
from elastane.policies.lowering.wants import place_wants
from elastane.policies.optimus.initial_allocation import InitialAllocation
from elastane.policies.optimus.resource_pool import ResourcePool
from elastane.policies.options import OptionError
from elastane.policies.plan import Exact, Plan, Spread, Want
from elastane.policies.slaq.gains import Bid, Growth, Steepest, bid, share_out
from elastane.policies.slaq.loss_curves import curves_of
from elastane.policies.view import Info, JobView, View

_TRIALS = 8
_SLACK = 1e-9


@dataclass(frozen=True)
class Slaq(Policy):
    """Quality gain per GPU.

    A job with too few losses to say, or that reports none, bids like the steepest of the others.  One whose speed
    is unknown, and one with parameter servers, keeps its least tasks.

    Attributes:
        epoch_s: How far ahead the loss is foretold, in seconds: T.  A few in the paper, where moves are free; here it
            has to be many times a restart, or no job ever grows.
        decay: Weight of a loss in the fit, as a share of the weight of the next one reported.
    """

    epoch_s: float = 600.0
    decay: float = 0.9

    name: ClassVar[str] = "slaq"
    title: ClassVar[str] = "SLAQ"
    paper: ClassVar[str] = "Zhang et al., SoCC'17"
    needs: ClassVar[Needs] = Needs(info=Info.LOSSES | Info.SPEED, period_s=60.0)
    elastic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 1.0 <= self.epoch_s <= 1e6 or not 0.0 < self.decay <= 1.0:
            raise OptionError("slaq: epoch_s is from 1 to 1e6, decay more than 0 and at most 1")

    def decide(self, view: View) -> Plan:
        """Divides the GPUs anew as long as that gains more than it costs; what is decided is decided at once."""
        bids = self._bids(view)
        explain: dict[str, str] = {}
        for _ in range(_TRIALS):
            explain.clear()
            grants = _improved(view, bids, explain)
            if all(job.grant == grants.get(job.id) for job in view.jobs.values()):
                break
            view = replace(view, jobs={i: replace(job, grant=grants.get(i)) for i, job in view.jobs.items()})
        for i in view.jobs.keys() - grants.keys():
            explain.setdefault(i, "its least workers find no place beside the jobs that run")
        return Plan(Exact(grants), explain=explain)

    def _bids(self, view: View) -> dict[str, Bid]:
        """Returns the bids of all jobs that may be given more than their least."""
        maker = InitialAllocation(view, ResourcePool(view.nodes.values()))
        rates = {job.id: line for job in view.jobs.values() if (line := _rates(job, maker)) is not None}
        jobs = [view.jobs[i] for i in rates]
        curves = curves_of([job.losses for job in jobs], self.decay)
        bids: dict[str, Bid] = {}
        for job, curve in zip(jobs, curves, strict=True):
            if curve is not None:
                bids[job.id] = bid(rates[job.id], curve.fall, self.epoch_s, job.restart_s)
        steepest = Steepest(bids.values())
        for job, curve in zip(jobs, curves, strict=True):
            if curve is None:
                bids[job.id] = steepest.bid(rates[job.id], self.epoch_s, job.restart_s)
        return bids


def _rates(job: JobView, maker: InitialAllocation) -> FloatArray | None:
    """Returns the job's work per second by number of workers, from none; None if it may not grow."""
    claim = maker.first(job)
    if claim.server is not None:
        return None
    surface = maker.surface(job, claim)
    if surface is None:
        return None
    most = max(claim.most_workers, claim.workers)
    return np.array([0.0, *(surface.rate(0, workers) for workers in range(1, most + 1))])


def _improved(view: View, bids: Mapping[str, Bid], explain: dict[str, str]) -> dict[str, Grant]:
    """Returns better grants than the present ones, or the present ones if there are no better.

    More jobs that run are better, and among as many a larger gain.
    """
    wants = _wants(view, bids, explain)
    present = {job.id: job.grant for job in view.jobs.values() if job.grant is not None}
    stuck = any(not view.must_keep(view.jobs[i]) and not _stands(grant, view) for i, grant in present.items())
    now = sum(bids[i].worth(grant.workers, stays=True) for i, grant in sorted(present.items()) if i in bids)
    if not stuck and len(wants) == len(present) and _most(wants, view, bids) <= now + _SLACK:
        return present  # no need to look for places
    grants = _placed(view, wants)
    if stuck or len(grants) > len(present):
        return grants
    stays = {i: grant == present.get(i) for i, grant in grants.items()}
    then = sum(bids[i].worth(grants[i].workers, stays[i]) for i in sorted(grants) if i in bids)
    return grants if len(grants) == len(present) and then > now + _SLACK else present


def _placed(view: View, wants: Mapping[str, Want]) -> dict[str, Grant]:
    """Returns the grants of what finds a place; a job that finds none is tried again with its least."""
    grants = place_wants(wants, view, {})
    if wants.keys() <= grants.keys():
        return grants
    maker = InitialAllocation(view, ResourcePool(view.nodes.values()))
    fewer = {
        i: want if i in grants else replace(want, workers=maker.first(view.jobs[i]).workers)
        for i, want in wants.items()
    }
    return place_wants(fewer, view, {})


def _most(wants: Mapping[str, Want], view: View, bids: Mapping[str, Bid]) -> float:
    """Returns the gain of all jobs if no job had to move that keeps its size."""
    return sum(
        bids[i].worth(wants[i].workers, stays=wants[i].workers == view.jobs[i].workers)
        for i in sorted(wants)
        if i in bids
    )


def _wants(view: View, bids: Mapping[str, Bid], explain: dict[str, str]) -> dict[str, Want]:
    """Returns the workers of each job: first the least for all in order of arrival, then by gain."""
    stock = ResourcePool(view.nodes.values())
    maker = InitialAllocation(view, stock)
    claims = maker.starts(explain)
    growths = [
        Growth(
            claim.job_id,
            bids[claim.job_id].from_now(view.jobs[claim.job_id].workers),
            claim.workers,
            claim.worker,
        )
        for claim in sorted(claims, key=lambda claim: claim.job_id)
        if claim.job_id in bids and not maker.stays_as_it_is(view.jobs[claim.job_id])
    ]
    share_out(growths, stock)
    grown = {growth.job_id: growth.workers for growth in growths}
    claims.sort(key=lambda claim: (grown.get(claim.job_id, claim.workers), claim.job_id))
    return {
        claim.job_id: Want(
            grown.get(claim.job_id, claim.workers),
            claim.servers,
            spread=Spread.EMPTIEST if claim.server is None else Spread.BALANCED,
        )
        for claim in claims
    }


def _stands(grant: Grant, view: View) -> bool:
    """Tells whether all nodes of a grant take work."""
    return all(node in view.usable for node in grant.nodes)
