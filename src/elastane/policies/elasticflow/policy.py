"""ElasticFlow (ASPLOS'23): admit a job only if every deadline promised can be kept, and use few GPUs to keep them.

Every slot each admitted job gets the first slot of its minimum satisfactory share; GPUs that are left go where they
cost the least additional GPU time.  Jobs without a deadline take part in what is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from elastane.policies.allocation.eviction import Configuration, place
from elastane.policies.contract import Needs, Policy
from elastane.policies.elasticflow.admission import Due, Free, Share, admit, shares_of
from elastane.policies.elasticflow.curves import Curve, curve_of, nodes_for
from elastane.policies.elasticflow.filling import Slots
from elastane.policies.elasticflow.leftovers import Grower, share_out
from elastane.policies.options import OptionError
from elastane.policies.plan import Admission, Exact, Plan, Verdict
from elastane.policies.reasons import Gpus, said
from elastane.policies.view import Info, JobState, JobView, View

_MOST_SLOTS = 2048
_UNKNOWN_S = 3600.0
"""Length on one GPU assumed where nothing is known of any job."""


@dataclass(frozen=True)
class ElasticFlow(Policy):
    """Deadline guarantees by minimum satisfactory shares.

    Attributes:
        slot_s: Length of a slot, in seconds.
        safety_s: Plans are made to end this long before a deadline, for estimates that are wrong and for restarts.
        best_effort: Take in a job whose deadline cannot be met without a promise, in place of refusing it.
    """

    slot_s: float = 60.0
    safety_s: float = 0.0
    best_effort: bool = False

    name: ClassVar[str] = "elasticflow"
    title: ClassVar[str] = "ElasticFlow"
    paper: ClassVar[str] = "Gu et al., ASPLOS'23"
    needs: ClassVar[Needs] = Needs(
        info=Info.SPEED | Info.REMAINING | Info.DEADLINE, period_s=60.0, profile=True
    )
    elastic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 1.0 <= self.slot_s <= 86_400.0 or not 0.0 <= self.safety_s <= 1e6:
            raise OptionError("elasticflow: slot_s is from 1 to 86400, safety_s from 0 to 1e6")

    def decide(self, view: View) -> Plan:
        """Answers new jobs, then divides the GPUs of this slot."""
        jobs = sorted(view.jobs.values(), key=lambda job: (job.submit_s, job.id))
        curves = {job.id: _curves(job, view) for job in jobs}
        free_now = _free(view)
        known = {job.id: curve for job in jobs if (curve := _due(job, view, curves[job.id], self.safety_s))}
        slots = Slots.until(
            max((due.deadline_s for due in known.values()), default=0.0), self.slot_s, _MOST_SLOTS
        )
        free = {kind: np.full(slots.number, gpus) for kind, gpus in free_now.items()}
        promised = [due for i, due in known.items() if i in _promised(view)]
        new = [due for i, due in known.items() if i not in _promised(view)]
        admitted, refused = admit(promised, new, slots, free)
        admissions = {due.id: _promise(view.jobs[due.id]) for due in admitted if due in new}
        admissions.update({i: self._refusal(reason) for i, reason in refused.items()})
        gone = {i for i in refused if not self.best_effort and view.jobs[i].state is JobState.PENDING}
        staying = [job for job in jobs if job.id not in gone and not view.must_keep(job)]
        given = self._divide(staying, admitted, curves, slots, free, free_now)
        explain: dict[str, str] = dict(refused)
        explain.update((job.id, _waits(curves[job.id])) for job in staying if job.id not in given)
        grants = place(view, _configurations(given, view), (), explain)
        # A promise is kept in mind also while nobody can tell how long its job will take.
        kept = _promised(view) & view.jobs.keys()
        memory = sorted(kept.union(due.id for due in admitted))
        return Plan(Exact(grants), explain=explain, admissions=admissions, memory=memory)

    def _divide(
        self,
        jobs: list[JobView],
        admitted: list[Due],
        curves: Mapping[str, dict[str, Curve]],
        slots: Slots,
        free: Free,
        free_now: dict[str, int],
    ) -> dict[str, tuple[str, int]]:
        """Returns type and GPUs of each job in this slot: what its deadline needs, then its part of what is left."""
        shares, late = shares_of(admitted, slots, free)
        given = {i: (share.gpu_type, int(share.gpus[0])) for i, share in shares.items() if share.gpus[0]}
        for kind, gpus in given.values():
            free_now[kind] -= gpus
        urgent = [due for due in admitted if due.id in late]
        _hurry(urgent, given, free_now)
        share_out([_grower(job, curves[job.id], shares, n) for n, job in enumerate(jobs)], given, free_now)
        return given

    def _refusal(self, reason: str) -> Admission:
        return Admission(Verdict.DOWNGRADE if self.best_effort else Verdict.REJECT, reason)


def _curves(job: JobView, view: View) -> dict[str, Curve]:
    kinds = sorted({node.gpu_type for node in view.usable.values()})
    found = {kind: curve for kind in kinds if (curve := curve_of(job, view, kind)) is not None}
    home = _home(job, view)
    if home is not None and not job.request.types and home in found and job.pinned:
        return {home: found[home]}
    return found


def _home(job: JobView, view: View) -> str | None:
    """Returns the type the job runs on; None if it does not run."""
    nodes = [view.usable[node] for node in job.grant.nodes if node in view.usable] if job.grant else []
    return nodes[0].gpu_type if nodes else None


def _free(view: View) -> dict[str, int]:
    """Returns the GPUs of each type that no job keeps which cannot be stopped."""
    free = {node.gpu_type: 0 for node in view.usable.values()}
    for node in view.usable.values():
        free[node.gpu_type] += node.gpus
    for job in view.jobs.values():
        for part in job.grant.slices if job.grant and view.must_keep(job) else ():
            if part.node in view.usable:
                free[view.usable[part.node].gpu_type] -= job.request.gpus_of(part.workers)
    return free


def _due(job: JobView, view: View, curves: Mapping[str, Curve], safety_s: float) -> Due | None:
    """Returns the job as one with a deadline; None without one, or if nothing is known that could be promised."""
    known = {kind: curve for kind, curve in curves.items() if curve.known}
    if job.deadline_s is None or not known or view.must_keep(job):
        return None
    left_s = job.deadline_s - view.now_s - safety_s
    return Due(job.id, job.submit_s, max(left_s, 0.0), known, _home(job, view))


def _promised(view: View) -> frozenset[str]:
    return frozenset(view.memory or ())


def _promise(job: JobView) -> Admission:
    return Admission(Verdict.ADMIT, "its deadline can be met", job.deadline_s)


def _hurry(late: list[Due], given: dict[str, tuple[str, int]], free: dict[str, int]) -> None:
    """Gives jobs that will miss a promised deadline all they can use, the first deadline first."""
    for due in sorted(late, key=lambda due: (due.deadline_s, due.submit_s, due.id)):
        sizes = [
            (curve.rate(size), size, kind)
            for kind, curve in due.curves.items()
            for size in curve.sizes
            if size <= free[kind]
        ]
        if sizes:
            _, size, kind = max(sizes)
            given[due.id] = (kind, size)
            free[kind] -= size


def _grower(job: JobView, curves: Mapping[str, Curve], shares: Mapping[str, Share], rank: int) -> Grower:
    share = shares.get(job.id)
    mine = curves if share is None or not share.gpus[0] else {share.gpu_type: curves[share.gpu_type]}
    usual = {kind: curve if np.isfinite(curve.work) else _guessed(curve) for kind, curve in mine.items()}
    return Grower(job.id, usual, rank)


def _guessed(curve: Curve) -> Curve:
    """Returns the curve of a job of unknown length as if it were of the usual one."""
    return replace(curve, work=_UNKNOWN_S * max(float(curve.rates[0]), 1e-12))


def _configurations(given: Mapping[str, tuple[str, int]], view: View) -> dict[str, Configuration]:
    nodes: dict[str, list[int]] = {}
    for node in sorted(view.usable.values(), key=lambda node: -node.gpus):
        nodes.setdefault(node.gpu_type, []).append(node.gpus)
    return {i: Configuration(kind, gpus, nodes_for(gpus, nodes[kind])) for i, (kind, gpus) in given.items()}


def _waits(curves: Mapping[str, Curve]) -> str:
    if not curves:
        return said("no accelerator type it may use has as many ", Gpus(), " as it needs")
    return said("it needs nothing yet to meet its deadline, or others gain more from the ", Gpus())


@dataclass(frozen=True)
class ElasticFlowOracle(ElasticFlow):
    """ElasticFlow with true curves and true remaining work, as its paper assumes them from profiling."""

    name: ClassVar[str] = "elasticflow-oracle"
    title: ClassVar[str] = "ElasticFlow, all-knowing"
    needs: ClassVar[Needs] = replace(ElasticFlow.needs, oracle=True, profile=False)
