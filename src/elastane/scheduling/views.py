"""Makes the view that a policy is asked about from facts; what it may not see is masked here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping

from elastane.policies.view import Facts, Info, JobState, JobView, View, has
from elastane.scheduling.facts import Evidence, JobFacts, Situation

CHANGING = Info.REMAINING | Info.SPEED | Info.LOSSES
"""Evidence that moves with time; views of jobs made with it cannot be kept."""


def job_view(job: JobFacts, info: Info) -> JobView:
    """The job as a policy that declared ``info`` sees it."""
    return JobView(
        id=job.id,
        submit_s=job.submit_s,
        request=job.request,
        app=job.app,
        tenant=job.tenant,
        klass=job.klass,
        weight=job.weight,
        priority=job.priority,
        abilities=job.abilities,
        state=state_of(job),
        grant=job.grant,
        ledger=job.ledger,
        restart_s=job.restart_s,
        facts=_evidence(job.evidence, info) if info else _NOTHING,
        visible=info,
    )


def state_of(job: JobFacts) -> JobState:
    """Where the job stands: it runs if it holds anything, and is suspended if it ever did."""
    if job.grant is not None:
        return JobState.RUNNING
    return JobState.PENDING if job.ledger.first_start_s is None else JobState.SUSPENDED


def view_of(situation: Situation, jobs: Mapping[str, JobView], info: Info) -> View:
    """The whole view: jobs in the order in which they came, whatever order their world keeps them in.

    Where not all wishes can be met, lowering meets those of the first; so the order is a fact like any other.  The
    random seed differs from decision to decision, but not between equal runs.
    """
    return View(
        now_s=situation.now_s,
        jobs=dict(sorted(jobs.items(), key=_arrival)),
        nodes=situation.nodes,
        trigger=situation.trigger,
        tenants=situation.tenants,
        memory=situation.memory,
        seed=(situation.seed * 1_000_003 + situation.decisions) & 0x7FFFFFFF,
        finished_service_gpu_s=tuple(situation.finished_service_gpu_s) if has(info, Info.HISTORY) else (),
        visible=info,
        min_run_s=situation.min_run_s,
        missing=situation.missing,
    )


def _arrival(job: tuple[str, JobView]) -> tuple[float, str]:
    return job[1].submit_s, job[0]


_NOTHING = Facts()


def _evidence(evidence: Evidence, info: Info) -> Facts:
    remaining = has(info, Info.REMAINING)
    return Facts(
        remaining=evidence.remaining() if remaining else None,
        declared_s=evidence.declared_s() if remaining else None,
        speed=evidence.speed() if has(info, Info.SPEED) else None,
        losses=evidence.losses() if has(info, Info.LOSSES) else (),
        deadline_s=evidence.deadline_s() if has(info, Info.DEADLINE) else None,
        skew=evidence.skew() if has(info, Info.SKEW) else None,
    )
