"""One decision: the policy is asked, its verdicts are read, its intent is lowered to grants.

| verdict | of a job that never ran | of one that runs or is suspended |
|---|---|---|
| ADMIT | it may be granted something, which is the rule without a verdict | the same |
| DEFER | it gets nothing in this decision, whatever the intent says | no effect |
| DOWNGRADE | its class is opportunistic from now on | the same |
| REJECT | it is refused | it is ended if the policy ends jobs (``Policy.ends_jobs``); else no effect |
| REJECT while a known node is missing | DEFER: refusing is for good, the node may be back | as above |

Ending is not preempting: a limit holds for every kind of job, also for those that must not be suspended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from elastane.cluster import Grant
from elastane.policies.contract import Policy
from elastane.policies.lowering import Lowered, lower
from elastane.policies.plan import Plan, Verdict
from elastane.policies.reasons import said
from elastane.policies.view import JobState, JobView, View

DEFERRED = "its policy defers it"


@dataclass(frozen=True, slots=True)
class Decision:
    """A plan and what it comes to.  ``refused``, ``ended``: reasons by job; ``took_ms`` is the policy's own time."""

    view: View
    plan: Plan
    lowered: Lowered
    refused: Mapping[str, str]
    ended: Mapping[str, str]
    downgraded: tuple[str, ...]
    took_ms: float

    @property
    def now_s(self) -> float:
        """The time of its view, in seconds."""
        return self.view.now_s

    @property
    def grants(self) -> Mapping[str, Grant]:
        """What each job shall hold."""
        return self.lowered.grants

    @property
    def waiting(self) -> Mapping[str, str]:
        """Why the others shall hold nothing."""
        return self.lowered.waiting


def decide(policy: Policy, view: View, timer: Callable[[], float] = time.perf_counter) -> Decision:
    """Ask the policy about a view, and work out what its answer means."""
    began = timer()
    plan = policy.decide(view)
    took_ms = (timer() - began) * 1e3
    return settle(plan, view, ends_jobs=policy.ends_jobs, took_ms=took_ms)


def settle(plan: Plan, view: View, *, ends_jobs: bool = False, took_ms: float = 0.0) -> Decision:
    """What a plan means for a view: verdicts first, then grants for whoever is left."""
    rejected = _rejected(plan, view, ends_jobs)
    patient = _waits_for_nodes(rejected, view)
    turned_away = {job: why for job, why in rejected.items() if job not in patient}
    deferred = {**_deferred(plan, view), **patient}
    gone = {*turned_away, *deferred}
    lowered = lower(plan, _without(view, gone)) if gone else lower(plan, view)
    lowered.waiting.update(deferred)
    refused = {job: why for job, why in turned_away.items() if _never_ran(view.jobs[job])}
    return Decision(
        view,
        plan,
        lowered,
        refused,
        {job: why for job, why in turned_away.items() if job not in refused},
        tuple(
            sorted(j for j, a in plan.admissions.items() if a.verdict is Verdict.DOWNGRADE and j in view.jobs)
        ),
        took_ms,
    )


def _rejected(plan: Plan, view: View, ends_jobs: bool) -> dict[str, str]:
    return {
        job: plan.admissions[job].reason
        for job in sorted(plan.admissions)
        if plan.admissions[job].verdict is Verdict.REJECT
        and job in view.jobs
        and (ends_jobs or _never_ran(view.jobs[job]))
    }


def _waits_for_nodes(rejected: Mapping[str, str], view: View) -> dict[str, str]:
    """Jobs that would be refused if every known node answered: they are deferred, and why."""
    if not view.missing:
        return {}
    names, verb = ", ".join(view.missing), "is" if len(view.missing) == 1 else "are"
    return {
        job: said(why or "its policy rejects it", f"; not refused while {names} {verb} missing")
        for job, why in rejected.items()
        if _never_ran(view.jobs[job])
    }


def _deferred(plan: Plan, view: View) -> dict[str, str]:
    return {
        job: admission.reason or DEFERRED
        for job, admission in plan.admissions.items()
        if admission.verdict is Verdict.DEFER and job in view.jobs and _never_ran(view.jobs[job])
    }


def _never_ran(job: JobView) -> bool:
    return job.state is JobState.PENDING


def _without(view: View, gone: set[str]) -> View:
    """The view without these jobs, whose GPUs are free again."""
    return replace(view, jobs={i: job for i, job in view.jobs.items() if i not in gone})
