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
from typing import TypeVar

from elastane.cluster import Node
from elastane.jobs.states import State
from elastane.policies.view import Ability
from elastane.service.control.active_job import LiveJob
from elastane.service.eta import NONSENSE, end_of, nodes_for
from elastane.service.messages import Eta
from elastane.service.run_kinds import is_command
from elastane.service.wording import named_to
from elastane.simcore.physics import core_share

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")
log = logging.getLogger("elastane")
_DOUBT = 0.15
"""How much longer or shorter training may take than the model of its speed says."""
_MOST = 200
"""Jobs for which it is worth looking ahead; those behind them wait for too much that nobody knows."""


@dataclass(frozen=True, slots=True)
class Ground:
    """The resources that jobs run on, at one moment."""

    nodes: Mapping[str, Node]
    cores: int | None
    now_s: float

    @property
    def slots(self) -> int:
        """The number of slots of all nodes."""
        return sum(node.gpus for node in self.nodes.values())


@dataclass(frozen=True, slots=True)
class _Holder:
    """A job that has its slots until it ends; the time is infinite where that cannot be estimated."""

    id: str
    tenant: str
    slots: int
    low_s: float
    high_s: float
    stays: bool


def foresee(jobs: Iterable[LiveJob], ground: Ground) -> dict[str, Eta]:
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


def _start_of(job: LiveJob, ground: Ground) -> Eta:
    return starting(job, ground) or Eta(basis="unknown: it is being started")


def starting(job: LiveJob, ground: Ground) -> Eta | None:
    """The end of a job that is being started and of which it is known how fast it is; None otherwise."""
    if job.row.grant is None or _unknown(job, ground):
        return None
    times = [
        job.learned.start_s + _needs(job, job.row.grant.workers, ground, busy) for busy in (0, ground.slots)
    ]
    return _range(ground.now_s + times[0] * (1 - _DOUBT), ground.now_s + times[1] * (1 + _DOUBT), _basis(job))


class _Queue:
    """The late end of all ranges: one after the other, as slots become free."""

    def __init__(self, ground: Ground, holders: Sequence[_Holder]) -> None:
        self._ground, self._holders = ground, holders
        self._now_s = ground.now_s
        self._free = ground.slots - sum(each.slots for each in holders)
        self._ends = [(each.high_s, each.id, each.slots) for each in holders]
        self._tenants = {each.id: each.tenant for each in holders}
        heapq.heapify(self._ends)

    def end_of(self, job: LiveJob) -> Eta:
        """The expected end of the next job of the queue."""
        least = job.slots(job.request(self._ground.slots).min_workers)
        blocked = self._wait_for(job, least)
        unknown = _unknown(job, self._ground) or _elsewhere(job) or blocked
        if blocked:
            return Eta(basis=f"unknown: {unknown}")
        late_s = math.inf
        if not unknown:
            needs_s = _needs(job, job.request(self._ground.slots).min_workers, self._ground, self._ground.slots)
            late_s = self._now_s + job.learned.start_s + needs_s * (1 + _DOUBT)
        self._free -= least
        self._tenants[job.id] = job.row.tenant
        heapq.heappush(self._ends, (late_s, job.id, least))
        return (
            Eta(basis=f"unknown: {unknown}")
            if unknown
            else _range(self._early_s(job, least), late_s, _basis(job))
        )

    def _wait_for(self, job: LiveJob, slots: int) -> str:
        """Let time pass until so much is free; why it never is."""
        while self._free < slots:
            if not self._ends:
                return "there is no room for it as long as nodes are away"
            end_s, who, theirs = heapq.heappop(self._ends)
            if math.isinf(end_s):
                heapq.heappush(self._ends, (end_s, who, theirs))
                named = named_to(job.row.tenant, [(who, self._tenants[who])])
                return f"it may have to wait for {named}, of which nobody knows when it ends"
            self._now_s, self._free = max(self._now_s, end_s), self._free + theirs
        return ""

    def _early_s(self, job: LiveJob, least: int) -> float:
        """The early end of its range."""
        ground = self._ground
        stays = sorted((each.low_s, each.slots) for each in self._holders if each.stays)
        free, start_s = ground.slots - sum(slots for _, slots in stays), ground.now_s
        while free < least and stays:
            end_s, slots = stays.pop(0)
            start_s, free = max(start_s, end_s), free + slots
        most = max(1, min(job.request(ground.slots).max_workers, int(free / max(job.worker.gpus, 1e-9))))
        return start_s + job.learned.start_s + _needs(job, most, ground, 0) * (1 - _DOUBT)


def _trains(job: LiveJob) -> bool:
    return job.row.state in (State.RUNNING, State.RESIZING)


def _turn(job: LiveJob) -> tuple[int, float, int]:
    return -job.spec.priority, job.row.submitted_s, job.row.number


def _holder(job: LiveJob, ground: Ground) -> _Holder:
    eta = (end_of(job.learned, ground.now_s, True) if _trains(job) else None) or Eta()
    if eta.high_s is None:
        eta = starting(job, ground) or eta
    slots = sum(job.slots(count) for count in job.places.values())
    stays = job.abilities is Ability.NONE or not job.spec.preemptible
    return _Holder(job.id, job.row.tenant, slots, eta.low_s or math.inf, eta.high_s or math.inf, stays)


def _unknown(job: LiveJob, ground: Ground) -> str:
    """Why the length of a job cannot be estimated; empty if it can."""
    if job.row.held:
        return "it is on hold"
    if is_command(job.row):
        return "a command does not say how much there is to do"
    if job.learned.remaining is None:
        return "it has not trained yet, so nobody knows how long it takes"
    if not 0.0 < _rate(job, 1, ground) < math.inf:
        return "too little was seen of it to know how fast it is"
    return ""


def _elsewhere(job: LiveJob) -> str:
    """What a job waits for that is no matter of slots alone."""
    if job.row.pinned_node is not None:
        return f"it waits for its place on {job.row.pinned_node}"
    return job.waiting if job.over_quota else ""


def _rate(job: LiveJob, workers: int, ground: Ground) -> float:
    """Useful samples per second on as few nodes as possible; 0 where that is not known."""
    kind = next((node.gpu_type for node in ground.nodes.values()), "cpu")
    model = job.learned.speed(kind)
    if model is None:
        return 0.0
    sizes = sorted((node.gpus for node in ground.nodes.values()), reverse=True)
    workers = max(1, min(workers, model.limits.max_workers))
    return float(model.best_of(nodes_for(workers, sizes), workers, kind)[0]) / job.learned.overhead


def _needs(job: LiveJob, workers: int, ground: Ground, busy: int) -> float:
    """Seconds of training that are left with so many workers, while so many slots are busy in all."""
    left = job.learned.remaining
    rates = [_rate(job, count, ground) for count in {1, workers}]
    share = core_share(ground.cores, max(busy, workers))
    return left.mean / (max(rates) * share) if left is not None and max(rates) > 0.0 else math.inf


def _basis(job: LiveJob) -> str:
    seen = "it was seen with" if job.learned.training is not None else "of past jobs like it"
    before = "" if job.row.grant is not None and not job.leaving else "after those before it, "
    return f"looking ahead: {before}at the speed {seen}"


def _range(low_s: float, high_s: float, basis: str) -> Eta:
    low_s = min(low_s, high_s)
    return Eta(low_s=low_s, mid_s=(low_s + high_s) / 2.0, high_s=high_s, basis=basis)
