"""Estimates when jobs that wait will have ended, as a range, by looking ahead over all of them at once.

The early end of the range: whoever can be made to leave leaves now, and the job has as many workers as it may have.
The late end: those who run keep what they have to their ends, and those who wait go one after the other with the
fewest workers that they can do with.  Policies do better than that, or there would be no point in them.
"""

from __future__ import annotations

import heapq
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from elastane.cluster import Node
from elastane.jobs.states import State
from elastane.policies.view import Ability
from elastane.service.control.active_job import LiveJob
from elastane.service.control.core_sharing import Machines
from elastane.service.control.type_sizes import slots_by_type
from elastane.service.eta import NONSENSE, end_of, nodes_for
from elastane.service.messages import Eta
from elastane.service.run_kinds import is_command
from elastane.service.wording import named_to

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")
log = logging.getLogger("elastane")
_DOUBT = 0.15
"""How much longer or shorter training may take than the model of its speed says."""
_MOST = 200
"""Jobs for which it is worth looking ahead; those behind them wait for too much that nobody knows."""


@dataclass(frozen=True)
class ClusterNow:
    """The resources that jobs run on, at one moment."""

    nodes: Mapping[str, Node]
    machines: Machines
    now_s: float

    @cached_property
    def slots(self) -> Mapping[str, int]:
        """Slots of all nodes by accelerator type."""
        return slots_by_type(self.nodes.values())

    @cached_property
    def sizes(self) -> Mapping[str, Sequence[int]]:
        """Slots of the nodes of each accelerator type, the largest first."""
        return {
            kind: sorted((n.gpus for n in self.nodes.values() if n.gpu_type == kind), reverse=True)
            for kind in self.slots
        }

    def types_for(self, job: LiveJob) -> list[str]:
        """Accelerator types that a job may get."""
        wanted = job.spec.accelerators
        return [kind for kind in self.slots if not wanted or kind in wanted]

    def most(self, job: LiveJob) -> int:
        """The most workers that the job may have."""
        return job.request(job.most(self.slots)).max_workers


@dataclass(frozen=True, slots=True)
class _Holder:
    """A job that has its slots until it ends; the time is infinite where that cannot be estimated."""

    id: str
    tenant: str
    slots: Mapping[str, int]
    """By accelerator type."""
    low_s: float
    high_s: float
    stays: bool


def foresee(jobs: Iterable[LiveJob], ground: ClusterNow) -> dict[str, Eta]:
    """Expected ends of all jobs that do not train now, by id; or why there is no estimate."""
    there = list(jobs)
    holders = [_contained(_holder, job, ground) for job in there if job.places and not job.leaving]
    waiting = sorted((job for job in there if job.row.grant is None or job.leaving), key=_turn)
    ends: dict[str, Eta] = {
        job.id: Eta(basis="unknown: too many jobs wait before it") for job in waiting[_MOST:]
    }
    queue = _Queue(ground, [each for each in holders if each is not None])
    for job in waiting[:_MOST]:
        ends[job.id] = _contained(_Queue.end_of, queue, job) or NONSENSE
    for job in there:
        if job.id not in ends and not _trains(job):
            ends[job.id] = _contained(_start_of, job, ground) or NONSENSE
    return ends


def _contained(work: Callable[[A, B], T], one: A, other: B) -> T | None:
    """What comes of it; None where what one job reported breaks it, which must not cost the others their answer."""
    try:
        return work(one, other)
    except Exception:
        log.exception("no looking ahead for one of the jobs")
        return None


def _start_of(job: LiveJob, ground: ClusterNow) -> Eta:
    return starting(job, ground) or Eta(basis="unknown: it is being started")


def starting(job: LiveJob, ground: ClusterNow) -> Eta | None:
    """The end of a job that is being started and of which it is known how fast it is; None otherwise."""
    if job.row.grant is None or _unknown(job, ground):
        return None
    times = [
        job.learned.start_s + _needs(job, job.row.grant.workers, ground, all_busy=busy)
        for busy in (False, True)
    ]
    return _range(ground.now_s + times[0] * (1 - _DOUBT), ground.now_s + times[1] * (1 + _DOUBT), _basis(job))


class _Queue:
    """The late end of all ranges: one after the other, as slots become free."""

    def __init__(self, ground: ClusterNow, holders: Sequence[_Holder]) -> None:
        self._ground, self._holders = ground, holders
        self._now_s = dict.fromkeys(ground.slots, ground.now_s)
        """By accelerator type: who waits for one holds nobody up who waits for another."""
        self._free = _without(ground.slots, holders)
        self._ends = [(each.high_s, each.id, each.slots) for each in holders]
        self._tenants = {each.id: each.tenant for each in holders}
        heapq.heapify(self._ends)

    def end_of(self, job: LiveJob) -> Eta:
        """The expected end of the next job of the queue."""
        ground = self._ground
        fewest = job.request(1).min_workers
        least = job.slots(fewest)
        blocked = self._wait_for(job, least)
        unknown = _unknown(job, ground) or _elsewhere(job) or blocked
        if blocked:
            return Eta(basis=f"unknown: {unknown}")
        late_s, kind = math.inf, self._roomiest(job)
        if not unknown:
            needs_s = _needs(job, fewest, ground, all_busy=True)
            late_s = self._now_s[kind] + job.learned.start_s + needs_s * (1 + _DOUBT)
        self._free[kind] -= least
        self._tenants[job.id] = job.row.tenant
        heapq.heappush(self._ends, (late_s, job.id, {kind: least}))
        return (
            Eta(basis=f"unknown: {unknown}")
            if unknown
            else _range(self._early_s(job, least), late_s, _basis(job))
        )

    def _roomiest(self, job: LiveJob) -> str:
        """The accelerator type with most free slots, of those that the job may get."""
        return max(self._ground.types_for(job), key=lambda kind: self._free[kind])

    def _wait_for(self, job: LiveJob, slots: int) -> str:
        """Let time pass until so much of one type is free; why it never is."""
        if not self._ground.types_for(job):
            return "no node that is there has an accelerator that it takes"
        while self._free[self._roomiest(job)] < slots:
            if not self._ends:
                return "there is no room for it as long as nodes are away"
            end_s, who, theirs = heapq.heappop(self._ends)
            if math.isinf(end_s):
                heapq.heappush(self._ends, (end_s, who, theirs))
                named = named_to(job.row.tenant, [(who, self._tenants[who])])
                return f"it may have to wait for {named}, of which nobody knows when it ends"
            for kind, count in theirs.items():
                self._now_s[kind] = max(self._now_s.get(kind, end_s), end_s)
                self._free[kind] = self._free.get(kind, 0) + count
        return ""

    def _early_s(self, job: LiveJob, least: int) -> float:
        """The early end of its range: on the type where that is earliest, of those that have room for it."""
        kinds = [kind for kind in self._ground.types_for(job) if self._ground.slots[kind] >= least]
        return min((self._early_on(job, least, kind) for kind in kinds), default=self._ground.now_s)

    def _early_on(self, job: LiveJob, least: int, kind: str) -> float:
        ground = self._ground
        stays = sorted((each.low_s, each.slots.get(kind, 0)) for each in self._holders if each.stays)
        free, start_s = ground.slots[kind] - sum(slots for _, slots in stays), ground.now_s
        while free < least and stays:
            end_s, slots = stays.pop(0)
            start_s, free = max(start_s, end_s), free + slots
        most = max(1, min(ground.most(job), int(free / max(job.worker.gpus, 1e-9))))
        return start_s + job.learned.start_s + _needs(job, most, ground, all_busy=False) * (1 - _DOUBT)


def _without(slots: Mapping[str, int], holders: Sequence[_Holder]) -> dict[str, int]:
    """Slots by type that these leave free."""
    free = dict(slots)
    for each in holders:
        for kind, count in each.slots.items():
            free[kind] = free.get(kind, 0) - count
    return free


def _trains(job: LiveJob) -> bool:
    return job.row.state in (State.RUNNING, State.RESIZING)


def _turn(job: LiveJob) -> tuple[int, float, int]:
    return -job.spec.priority, job.row.submitted_s, job.row.number


def _holder(job: LiveJob, ground: ClusterNow) -> _Holder:
    eta = (end_of(job.learned, ground.now_s, True) if _trains(job) else None) or Eta()
    if eta.high_s is None:
        eta = starting(job, ground) or eta
    slots: dict[str, int] = {}
    for node, count in job.places.items():
        if node in ground.nodes:
            kind = ground.nodes[node].gpu_type
            slots[kind] = slots.get(kind, 0) + job.slots(count)
    stays = job.abilities is Ability.NONE or not job.spec.preemptible
    return _Holder(job.id, job.row.tenant, slots, eta.low_s or math.inf, eta.high_s or math.inf, stays)


def _unknown(job: LiveJob, ground: ClusterNow) -> str:
    """Why the length of a job cannot be estimated; empty if it can."""
    if job.row.held:
        return "it is on hold"
    if is_command(job.row):
        return "a command does not say how much there is to do"
    if job.learned.remaining is None:
        return "it has not trained yet, so nobody knows how long it takes"
    if not 0.0 < max(_rates(job, 1, ground), default=0.0) < math.inf:
        return "too little was seen of it to know how fast it is"
    return ""


def _elsewhere(job: LiveJob) -> str:
    """What a job waits for that is no matter of slots alone."""
    if job.row.pinned_node is not None:
        return f"it waits for its place on {job.row.pinned_node}"
    return job.waiting if job.over_quota else ""


def _rates(job: LiveJob, workers: int, ground: ClusterNow) -> list[float]:
    """Useful samples per second on as few nodes as possible, for each type it may get; 0 where that is not known."""
    kinds = _on(job, ground) or ground.types_for(job)
    model = job.learned.speed(*(tuple(ground.slots) or ("cpu",)))
    if model is None:
        return []
    found = []
    for kind in kinds:
        most = min(workers, model.limits.max_workers, max(1, ground.slots[kind]))
        nodes = nodes_for(max(1, most), ground.sizes[kind])
        found.append(float(model.best_of(nodes, max(1, most), kind)[0]) / job.learned.overhead)
    return found


def _on(job: LiveJob, ground: ClusterNow) -> list[str]:
    """The accelerator type that it trains on or is being started on, if there is one."""
    if job.row.grant is None or job.leaving:
        return []
    kinds = {ground.nodes[node].gpu_type for node in job.row.grant.nodes if node in ground.nodes}
    return sorted(kinds) if len(kinds) == 1 else []


def _needs(job: LiveJob, workers: int, ground: ClusterNow, *, all_busy: bool) -> float:
    """Seconds of training that are left with so many workers, if all slots are busy or none but its own.

    Busy means the slowest accelerator type that it may get as well, else it is the fastest.
    """
    left = job.learned.remaining
    # More workers than are worth it are no slower than one: nobody has to use them.
    pairs = zip(_rates(job, 1, ground), _rates(job, workers, ground), strict=True)
    rates = [max(pair) for pair in pairs]
    rate = (min if all_busy else max)(rates, default=0.0)
    share = ground.machines.foreseen(workers, all_busy=all_busy)
    return left.mean / (rate * share) if left is not None and rate > 0.0 else math.inf


def _basis(job: LiveJob) -> str:
    seen = "it was seen with" if job.learned.training is not None else "of past jobs like it"
    before = "" if job.row.grant is not None and not job.leaving else "after those before it, "
    return f"looking ahead: {before}at the speed {seen}"


def _range(low_s: float, high_s: float, basis: str) -> Eta:
    low_s = min(low_s, high_s)
    return Eta(low_s=low_s, mid_s=(low_s + high_s) / 2.0, high_s=high_s, basis=basis)
