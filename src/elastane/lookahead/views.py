"""Building the snapshot a policy sees, with only what it declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from elastane.cluster import Node
from elastane.lookahead.job import JobRun
from elastane.models.estimate import Estimate, Provenance
from elastane.models.speed import SpeedModel
from elastane.policies.contract import Needs
from elastane.policies.view import Facts, Info, JobState, JobView, Ledger, Tenant, View, has

CHANGING = Info.REMAINING | Info.SPEED | Info.LOSSES
"""Facts that move with time, so that views of jobs that use them cannot be kept."""


class ViewBuilder:
    """Makes views; keeps those of jobs for which nothing has changed."""

    def __init__(self, needs: Needs, seed: int, tenants: Mapping[str, Tenant], min_run_s: float = 0.0) -> None:
        self._needs, self._seed, self._tenants, self._min_run_s = needs, seed, tenants, min_run_s
        self._kept: dict[str, JobView] = {}
        self.finished_service: list[float] = []

    def forget(self, job_id: str) -> None:
        """Something about this job changed."""
        self._kept.pop(job_id, None)

    def build(
        self,
        now_s: float,
        active: Mapping[str, JobRun],
        nodes: Mapping[str, Node],
        trigger: str,
        memory: object,
        plans: int,
    ) -> View:
        """The view at this instant.  The seed differs from decision to decision, but not between runs."""
        info = self._needs.info
        reuse = not has(info, CHANGING)
        jobs: dict[str, JobView] = {}
        for job_id, run in active.items():
            view = self._kept.get(job_id) if reuse else None
            if view is None:
                view = self._kept[job_id] = self._job(run, info)
            jobs[job_id] = view
        return View(
            now_s=now_s,
            jobs=jobs,
            nodes=nodes,
            trigger=trigger,
            tenants=self._tenants,
            memory=memory,
            seed=(self._seed * 1_000_003 + plans) & 0x7FFFFFFF,
            finished_service_gpu_s=tuple(self.finished_service) if has(info, Info.HISTORY) else (),
            visible=info,
            min_run_s=self._min_run_s,
        )

    def _job(self, run: JobRun, info: Info) -> JobView:
        arrival = run.arrival
        if run.grant is not None:
            state = JobState.RUNNING
        else:
            state = JobState.PENDING if run.first_start_s is None else JobState.SUSPENDED
        ledger = Ledger(
            run.as_of_s,
            run.gpus,
            run.service_gpu_s,
            run.held_s,
            run.first_start_s,
            run.last_change_s,
            run.restarts,
            run.since_s,
        )
        return JobView(
            id=run.id,
            submit_s=arrival.submit_s,
            request=arrival.request,
            app=arrival.behaviour.app,
            tenant=arrival.tenant,
            weight=arrival.weight,
            priority=arrival.priority,
            abilities=arrival.abilities,
            state=state,
            grant=run.grant,
            ledger=ledger,
            restart_s=run.restart_s,
            facts=self._facts(run, info),
            visible=info,
        )

    def _remaining(self, run: JobRun) -> Estimate | None:
        """What the owner declared, else what the loss curve foretells, else what past jobs tell, else nothing."""
        declared = run.arrival.declared_work
        if declared is not None:
            return Estimate(max(declared - run.done, 0.0), source=Provenance.DECLARED)
        end = run.expected_end()
        if end is not None:
            return replace(end, mean=max(end.mean - run.done, 0.0))
        return run.memory.remaining(run.done) if run.memory else None

    def _facts(self, run: JobRun, info: Info) -> Facts:
        if not info:
            return Facts()
        remaining: Estimate | None = None
        speed: SpeedModel | None = None
        if self._needs.oracle and has(info, Info.REMAINING | Info.SPEED):
            limits = run.learner.limits if run.learner else None
            left, true_speed = run.arrival.behaviour.oracle(run.done, limits)
            remaining = left if has(info, Info.REMAINING) else None
            speed = true_speed if has(info, Info.SPEED) else None
        else:
            if has(info, Info.REMAINING):
                remaining = self._remaining(run)
            learner = run.learner or run.server_learner
            if has(info, Info.SPEED) and learner is not None:
                speed = learner.model()
        return Facts(
            remaining=remaining,
            declared_s=run.arrival.declared_s if has(info, Info.REMAINING) else None,
            speed=speed,
            losses=tuple(run.losses) if has(info, Info.LOSSES) else (),
            deadline_s=run.arrival.deadline_s if has(info, Info.DEADLINE) else None,
            skew=run.arrival.skew if has(info, Info.SKEW) else None,
        )
