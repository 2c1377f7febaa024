"""The view of a simulated world: its jobs' facts, and the evidence that their agents have gathered."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from elastane.cluster import Node
from elastane.models.estimate import Estimate, Provenance
from elastane.models.speed import SpeedModel
from elastane.policies.contract import Needs
from elastane.policies.view import JobView, Ledger, Tenant, View, has
from elastane.scheduling.facts import JobFacts, Situation
from elastane.scheduling.views import CHANGING, job_view, view_of
from elastane.simcore.job_run import JobRun


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
        known: Collection[str],
        trigger: str,
        memory: object,
        plans: int,
    ) -> View:
        """The view at this instant."""
        info = self._needs.info
        reuse = not has(info, CHANGING)
        jobs: dict[str, JobView] = {}
        for job_id, run in active.items():
            view = self._kept.get(job_id) if reuse else None
            if view is None:
                view = self._kept[job_id] = job_view(facts_of(run, self._needs.oracle), info)
            jobs[job_id] = view
        situation = Situation(
            now_s=now_s,
            nodes=nodes,
            known=known,
            trigger=trigger,
            tenants=self._tenants,
            memory=memory,
            seed=self._seed,
            decisions=plans,
            finished_service_gpu_s=self.finished_service,
            min_run_s=self._min_run_s,
        )
        return view_of(situation, jobs, info)


def facts_of(run: JobRun, oracle: bool = False) -> JobFacts:
    """What is known of a simulated job; an oracle's evidence is the truth."""
    arrival = run.arrival
    return JobFacts(
        id=run.id,
        submit_s=arrival.submit_s,
        request=arrival.request,
        kind=arrival.kind,
        evidence=TrueEvidence(run) if oracle else LearnedEvidence(run),
        app=arrival.behaviour.app,
        tenant=arrival.tenant,
        klass=run.klass,
        weight=arrival.weight,
        priority=arrival.priority,
        grant=run.grant,
        ledger=Ledger(
            run.as_of_s,
            run.gpus,
            run.service_gpu_s,
            run.held_s,
            run.first_start_s,
            run.last_change_s,
            run.restarts,
            run.since_s,
        ),
        restart_s=run.restart_s,
    )


class LearnedEvidence:
    """What a job's own agent has measured, and what its owner declared."""

    def __init__(self, run: JobRun) -> None:
        self.run = run

    def remaining(self) -> Estimate | None:
        """What the owner declared, else what the loss curve foretells, else what past jobs tell, else nothing."""
        run = self.run
        declared = run.arrival.declared_work
        if declared is not None:
            return Estimate(max(declared - run.done, 0.0), source=Provenance.DECLARED)
        end = run.expected_end()
        if end is not None:
            return replace(end, mean=max(end.mean - run.done, 0.0))
        return run.memory.remaining(run.done) if run.memory else None

    def declared_s(self) -> float | None:
        """The owner's word for the whole run."""
        return self.run.arrival.declared_s

    def speed(self) -> SpeedModel | None:
        """The model fitted so far."""
        learner = self.run.learner or self.run.server_learner
        return learner.model() if learner is not None else None

    def losses(self) -> Sequence[tuple[float, float]]:
        """The losses that the job has reported, with the work done by then."""
        return tuple(self.run.losses)

    def deadline_s(self) -> float | None:
        """The deadline the owner gave."""
        return self.run.arrival.deadline_s

    def skew(self) -> float | None:
        """As measured by whoever made the trace."""
        return self.run.arrival.skew


class TrueEvidence(LearnedEvidence):
    """The ground truth, for policies that are labelled oracles."""

    def remaining(self) -> Estimate | None:
        """Work that is really left."""
        return self._truth[0]

    def speed(self) -> SpeedModel | None:
        """How fast the job really is."""
        return self._truth[1]

    @cached_property
    def _truth(self) -> tuple[Estimate, SpeedModel]:
        limits = self.run.learner.limits if self.run.learner else None
        return self.run.arrival.behaviour.oracle(self.run.done, limits)
