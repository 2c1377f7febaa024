"""PickyMan-style (IPCCC'22): short jobs first; running jobs make room at the end of an epoch, where it pays.

Only the abstract is public: this is a reconstruction.  A stop is decided now and made at the victim's epoch end, so the
policy remembers whom it will stop, and asks to be called then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from elastane.cluster import Grant
from elastane.policies.backfill import Forecast
from elastane.policies.contract import Needs, Policy
from elastane.policies.fifo import gpus_of, running_and_queue
from elastane.policies.lowering.place import place
from elastane.policies.lowering.room import Room
from elastane.policies.lowering.wants import place_wants
from elastane.policies.options import OptionError
from elastane.policies.pickyman.victims import Runner, by_end, by_loss, start_without, victims
from elastane.policies.plan import Exact, Plan, Want
from elastane.policies.reasons import Gpus, Job, said
from elastane.policies.view import Ability, Info, JobView, View, has

_GRACE_S = 1e-6
_TRIALS = 8

Claims = dict[str, dict[str, float]]
"""By waiting job: who will stop for it, and when."""


@dataclass(frozen=True)
class PickyMan(Policy):
    """Preemption at epoch ends, of the jobs that lose least.

    Views do not hold epochs.  Every job counts as having one of ``epoch_s``, the first from when it last started.

    Attributes:
        epoch_s: Length of an epoch, in seconds.
        cooldown_s: A job that was preempted before is left alone so long after it was started again.
        ageing_s: A job that has waited so long counts as half as large as it is.
    """

    epoch_s: float = 600.0
    cooldown_s: float = 1800.0
    ageing_s: float = 3600.0

    name: ClassVar[str] = "pickyman"
    title: ClassVar[str] = "PickyMan-style"
    paper: ClassVar[str] = "in the style of PickyMan, IPCCC'22"
    needs: ClassVar[Needs] = Needs(info=Info.REMAINING | Info.SPEED)

    def __post_init__(self) -> None:
        if not (1.0 <= self.epoch_s <= 1e6 and 0.0 <= self.cooldown_s <= 1e9 and 1.0 <= self.ageing_s <= 1e9):
            raise OptionError("pickyman: epoch_s is from 1 to 1e6, cooldown_s from 0, ageing_s from 1 to 1e9")

    def decide(self, view: View) -> Plan:
        """Stops those whose epoch ends, starts jobs, and chooses whom to stop next, until that is settled."""
        claims = _remembered(view)
        explain: dict[str, str] = {}
        forecast = Forecast(view)
        for _ in range(_TRIALS):
            explain = {}
            grants = self._grants(view, claims, forecast, explain)
            settled = all(job.grant == grants.get(job.id) for job in view.jobs.values())
            view = _applied(view, grants)
            known, claims = claims, self._claims(view, claims, forecast)
            if settled and known == claims:
                break
        for i, stops in claims.items():
            first = min(stops, key=lambda victim: (stops[victim], victim))
            wait_s = stops[first] - view.now_s
            explain[i] = said("waits for ", Job(first), f", whose epoch ends in {wait_s:.0f} s")
        wakes = sorted({at_s for stops in claims.values() for at_s in stops.values() if at_s > view.now_s})
        return Plan(Exact(grants), explain=explain, wake_s=tuple(wakes[:1]), memory=claims or None)

    def _grants(
        self, view: View, claims: Claims, forecast: Forecast, explain: dict[str, str]
    ) -> dict[str, Grant]:
        """Returns who runs now: those that go on, then those for whom others stopped, then the queue."""
        due = {i for chosen in claims.values() for i, at_s in chosen.items() if at_s <= view.now_s + _GRACE_S}
        running, queue = running_and_queue(view)
        stops = {job.id for job in running if job.id in due and not view.must_keep(job)}
        going = [job for job in running if job.id not in stops]
        waiting = self._ordered(view.now_s, forecast, [*queue, *(job for job in running if job.id in stops)])
        first = [job for job in waiting if job.id in claims]
        held = sum(
            gpus_of(view.jobs[i]) for chosen in claims.values() for i in chosen if self._stopped(view, i, stops)
        )
        free = view.total_gpus - sum(job.request.gpus_held(job.grant) for job in going) - held
        listed = [*going, *first]
        for job in (job for job in waiting if job.id not in claims):
            if not held or gpus_of(job) <= free:
                listed.append(job)
                free -= gpus_of(job)
            else:
                explain[job.id] = said(
                    "the ", Gpus(), " that are free are kept for a job for which others stop"
                )
        # An order would be laid out anew for each job without a place; here the jobs are many, and all may be passed.
        return place_wants({job.id: _want(job) for job in listed}, view, explain)

    def _stopped(self, view: View, job_id: str, stops: set[str]) -> bool:
        job = view.jobs.get(job_id)
        return job is not None and (job.grant is None or job_id in stops)

    def _ordered(self, now_s: float, forecast: Forecast, jobs: list[JobView]) -> list[JobView]:
        """Returns jobs by predicted GPU time, less with every hour that they wait; those of unknown length last."""

        def size(job: JobView) -> tuple[float, float, str]:
            waited_s = max(now_s - max(job.submit_s, job.ledger.last_change_s or 0.0), 0.0)
            gpu_s = forecast.runtime_s(job) * gpus_of(job) / (1.0 + waited_s / self.ageing_s)
            return (gpu_s, job.submit_s, job.id)

        return sorted(jobs, key=size)

    def _claims(self, view: View, before: Mapping[str, Mapping[str, float]], forecast: Forecast) -> Claims:
        """Returns who will stop for whom: what was decided and still makes sense, then more, in the queue's order."""
        jobs = view.jobs
        claims: Claims = {}
        for i, stops in sorted(before.items()):
            ahead = any(
                v in jobs and jobs[v].grant is not None and at_s > view.now_s for v, at_s in stops.items()
            )
            if i in jobs and jobs[i].grant is None and ahead:
                claims[i] = {victim: at_s for victim, at_s in sorted(stops.items()) if victim in jobs}
        taken = {victim for stops in claims.values() for victim in stops}
        runners = [self._runner(job, view, forecast) for job in view.jobs.values() if job.grant is not None]
        ends = by_end(runner for runner in runners if runner.id not in taken)
        losses = by_loss(ends)
        waiting = self._ordered(view.now_s, forecast, [job for job in view.jobs.values() if job.grant is None])
        idle = view.total_gpus - sum(job.request.gpus_held(job.grant) for job in view.jobs.values())
        asked = 0
        for job in waiting:
            asked += gpus_of(job)
            takes_s = forecast.runtime_s(job)
            if job.id in claims or math.isinf(takes_s) or job.id in taken:
                continue
            without_s = start_without(asked, idle, ends)
            chosen = victims(gpus_of(job), takes_s, max(idle, 0), without_s, losses)
            if chosen and _finds_place(job, view, {runner.id for runner in chosen} | taken):
                claims[job.id] = {runner.id: view.now_s + runner.epoch_end_s for runner in chosen}
                taken.update(claims[job.id])
                ends = [runner for runner in ends if runner.id not in claims[job.id]]
                losses = [runner for runner in losses if runner.id not in claims[job.id]]
                idle -= gpus_of(job) - sum(runner.gpus for runner in chosen)
                asked -= gpus_of(job)
        return claims

    def _runner(self, job: JobView, view: View, forecast: Forecast) -> Runner:
        began_s = (job.ledger.last_change_s or 0.0) + job.restart_s
        within_s = max(view.now_s - began_s, 0.0) % self.epoch_s
        end_s = max(began_s - view.now_s, 0.0) + self.epoch_s - within_s
        changed_s = view.now_s - (job.ledger.last_change_s or 0.0)
        cooling = job.ledger.restarts > 0 and changed_s < self.cooldown_s
        able = job.request.preemptible and has(job.abilities, Ability.SUSPEND) and not view.too_young(job)
        left_s = forecast.runtime_s(job)
        gpus = job.request.gpus_held(job.grant)
        return Runner(job.id, gpus, left_s, end_s, job.restart_s, able and not cooling)


def _remembered(view: View) -> Claims:
    """Returns the claims of the last plan, of jobs that still wait."""
    claims = sorted((view.memory or {}).items())
    return {i: dict(stops) for i, stops in claims if i in view.jobs and view.jobs[i].grant is None}


def _finds_place(job: JobView, view: View, leaving: set[str]) -> bool:
    """Tells whether a job finds a place once these have left."""
    room = Room.of(view)
    for other in view.jobs.values():
        if other.grant is not None and other.id not in leaving:
            room.take(other.grant, other.request)
    return place(room, job.request, _want(job)) is not None


def _applied(view: View, grants: Mapping[str, Grant]) -> View:
    """Returns the view in which the jobs have these grants, since now where they are others."""
    changes: dict[str, Any] = {}
    for job in view.jobs.values():
        grant = grants.get(job.id)
        if grant != job.grant:
            old = job.ledger
            again = old.restarts + (grant is not None and old.first_start_s is not None)
            ledger = replace(old, last_change_s=view.now_s, restarts=again)
            changes[job.id] = replace(job, grant=grant, ledger=ledger)
    return replace(view, jobs={**view.jobs, **changes}) if changes else view


def _want(job: JobView) -> Want:
    """Returns what a job asks for; with parameter servers one for every worker, as in an ``Order``."""
    servers = min(job.request.workers, job.request.max_servers) if job.request.server else 0
    return Want(job.request.workers, servers)
