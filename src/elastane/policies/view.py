"""A policy sees a view: an immutable snapshot, with everything it did not declare masked.

Nothing here is a live object: a view can be kept, compared and decided on again, byte for byte.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, Flag, auto
from functools import cached_property
from typing import Any

from elastane.cluster import Grant, Node
from elastane.errors import ElastaneError
from elastane.models.estimate import Estimate
from elastane.models.speed import SpeedModel
from elastane.resources import Resources


class Info(Flag):
    """What a policy may read about jobs beyond their request and their ledger; the rest is masked."""

    NONE = 0
    REMAINING = auto()  # work still to do
    SPEED = auto()  # work per second for an allocation (goodput where the job adapts its batch)
    LOSSES = auto()  # the loss curve so far
    HISTORY = auto()  # total service of jobs that have finished
    DEADLINE = auto()
    PRICES = auto()
    SKEW = auto()  # share of the model's largest tensor


class Ability(Flag):
    """What a job's runtime can do; a policy that needs more must leave the job as it is."""

    NONE = 0
    SUSPEND = auto()
    MIGRATE = auto()
    RESIZE = auto()
    REBATCH = auto()


ELASTIC = Ability.SUSPEND | Ability.MIGRATE | Ability.RESIZE | Ability.REBATCH
"""All of them; what jobs of other kinds can do is the table in ``scheduling/abilities_by_kind.py``."""


def has(flags: Info | Ability, flag: Info | Ability) -> bool:
    """Whether any bit of ``flag`` is set; several times faster than ``&`` on Flag, and asked very often."""
    return bool(flags._value_ & flag._value_)


class MaskedInformation(ElastaneError):
    """A policy read something it had not declared in its needs."""


class JobState(Enum):
    """The state of an unfinished job, as far as a policy distinguishes it."""

    PENDING = "pending"  # never held anything
    RUNNING = "running"
    SUSPENDED = "suspended"  # held something before


@dataclass(frozen=True, slots=True)
class Request:
    """What the owner asked for.  Rigid policies give ``workers``; elastic ones stay in [min, max].

    ``max_nodes`` limits the spread; ``types`` empty means any accelerator will do.
    """

    workers: int = 1
    min_workers: int = 1
    max_workers: int = 1
    worker: Resources = Resources(gpus=1.0)
    server: Resources | None = None
    max_servers: int = 0
    types: tuple[str, ...] = ()
    max_nodes: int | None = None
    preemptible: bool = True

    def gpus_of(self, workers: int) -> int:
        """Whole GPUs that so many workers on one node take; jobs do not share a GPU."""
        return workers if self.worker.gpus == 1.0 else math.ceil(workers * self.worker.gpus - 1e-9)

    def gpus_held(self, grant: Grant | None) -> int:
        """GPUs that a grant takes, all nodes together; a worker without a GPU counts as one slot."""
        if grant is None:
            return 0
        counted = self.gpus_of if self.worker.gpus else int
        return sum(counted(part.workers) for part in grant.slices)


@dataclass(frozen=True, slots=True)
class Ledger:
    """Service a job has received, exact at ``as_of_s`` and growing linearly since (``gpus`` held).

    Time spent restarting counts: the GPUs were held.
    """

    as_of_s: float = 0.0
    gpus: int = 0
    service_gpu_s: float = 0.0
    held_s: float = 0.0
    first_start_s: float | None = None
    last_change_s: float | None = None
    restarts: int = 0
    since_s: float | None = None
    """When it last got GPUs after having had none."""

    def service_at(self, now_s: float) -> float:
        """Returns the attained service in GPU seconds."""
        return self.service_gpu_s + self.gpus * (now_s - self.as_of_s)

    def held_at(self, now_s: float) -> float:
        """Returns the wall seconds for which the job has held at least one GPU."""
        return self.held_s + (now_s - self.as_of_s if self.gpus else 0.0)


@dataclass(frozen=True, slots=True)
class Facts:
    """Information that a policy sees only if it declared it."""

    remaining: Estimate | None = None
    speed: SpeedModel | None = None
    losses: Sequence[tuple[float, float]] = ()
    deadline_s: float | None = None
    skew: float | None = None
    declared_s: float | None = None


@dataclass(frozen=True, slots=True)
class JobView:
    """One unfinished job, as a policy sees it."""

    id: str
    submit_s: float
    request: Request
    app: str = ""
    tenant: str = "default"
    klass: str = "normal"
    weight: float = 1.0
    priority: int = 0
    abilities: Ability = ELASTIC
    state: JobState = JobState.PENDING
    grant: Grant | None = None
    ledger: Ledger = Ledger()
    restart_s: float = 0.0
    facts: Facts = Facts()
    visible: Info = Info.NONE

    def _require(self, info: Info) -> None:
        if not has(self.visible, info):
            raise MaskedInformation(
                f"this policy read Info.{info.name} of job {self.id} without declaring it in needs.info"
            )

    @property
    def remaining(self) -> Estimate | None:
        """Work still to do, in the unit of ``speed``; None when unknown."""
        self._require(Info.REMAINING)
        return self.facts.remaining

    @property
    def declared_s(self) -> float | None:
        """The whole run time in seconds that its owner declared for the workers requested; None without one."""
        self._require(Info.REMAINING)
        return self.facts.declared_s

    @property
    def speed(self) -> SpeedModel | None:
        """Work per second for any allocation; None before the first observation."""
        self._require(Info.SPEED)
        return self.facts.speed

    @property
    def losses(self) -> Sequence[tuple[float, float]]:
        """The loss curve so far, as pairs (work done, loss)."""
        self._require(Info.LOSSES)
        return self.facts.losses

    @property
    def deadline_s(self) -> float | None:
        """The time by which the owner needs the job finished; None without one."""
        self._require(Info.DEADLINE)
        return self.facts.deadline_s

    @property
    def skew(self) -> float | None:
        """Share of the largest tensor in the model; None when never measured."""
        self._require(Info.SKEW)
        return self.facts.skew

    @property
    def workers(self) -> int:
        """The number of workers the job holds now."""
        return self.grant.workers if self.grant else 0

    @property
    def pinned(self) -> bool:
        """Whether the present grant must stay: the job runs, and cannot or must not be suspended."""
        if self.grant is None:
            return False
        return not self.request.preemptible or not has(self.abilities, Ability.SUSPEND)


@dataclass(frozen=True, slots=True)
class Tenant:
    """A team or person that shares the cluster: its weight in fair shares, and its quota in GPUs."""

    weight: float = 1.0
    quota_gpus: int | None = None


@dataclass(frozen=True)
class View:
    """Everything one decision may depend on, including the policy's own memory and its random seed.

    ``nodes`` holds only nodes that are there; a draining one takes nothing new and keeps only pinned jobs.
    ``missing`` names known nodes that do not answer: what fits nowhere now may fit once they are back.
    ``memory`` is what the policy's last plan asked to keep.
    A job that has just been started is not suspended again before ``min_run_s`` have passed, whatever a plan says.
    """

    now_s: float
    jobs: Mapping[str, JobView]
    nodes: Mapping[str, Node]
    trigger: str = "tick"
    tenants: Mapping[str, Tenant] = field(default_factory=dict)
    memory: Any = None
    seed: int = 0
    finished_service_gpu_s: Sequence[float] = ()
    visible: Info = Info.NONE
    min_run_s: float = 0.0
    missing: tuple[str, ...] = ()

    @property
    def history(self) -> Sequence[float]:
        """The total service of each finished job, in GPU seconds."""
        if not has(self.visible, Info.HISTORY):
            raise MaskedInformation("this policy read Info.HISTORY without declaring it in needs.info")
        return self.finished_service_gpu_s

    @cached_property
    def total_gpus(self) -> int:
        """GPUs that can be granted: those of usable nodes, and those that pinned jobs keep on draining ones."""
        return sum(node.gpus for node in self.usable.values()) + sum(self.kept_on_draining().values())

    def must_keep(self, job: JobView) -> bool:
        """Whether the job's grant has to stay as it is: pinned, and every node of it is still there."""
        return job.id in self._kept

    def too_young(self, job: JobView) -> bool:
        """Whether the job was started so recently that it should not lose all it holds."""
        since_s = job.ledger.since_s
        if job.grant is None or since_s is None or self.now_s - since_s >= self.min_run_s:
            return False
        return all(part.node in self.usable for part in job.grant.slices)

    @cached_property
    def _kept(self) -> frozenset[str]:
        return frozenset(
            job.id
            for job in self.jobs.values()
            if job.pinned and job.grant and all(part.node in self.nodes for part in job.grant.slices)
        )

    @cached_property
    def usable(self) -> Mapping[str, Node]:
        """Nodes that take new work, by name: sorted, so that no result depends on the order of listing."""
        return {i: self.nodes[i] for i in sorted(self.nodes) if not self.nodes[i].draining}

    @cached_property
    def scratch(self) -> dict[str, Any]:
        """A cache for shared code that computes something from this view; not part of what the view says."""
        return {}

    def reach(self, request: Request) -> int:
        """Returns the most workers such a job could have alone, on one accelerator type and the nodes it may use."""
        if not request.worker.gpus:
            return max(request.workers, request.max_workers)
        per_type: dict[str, list[int]] = {}
        for node in self.usable.values():
            if not request.types or node.gpu_type in request.types:
                per_type.setdefault(node.gpu_type, []).append(int(node.gpus / request.worker.gpus + 1e-9))
        sums = (sum(sorted(fits, reverse=True)[: request.max_nodes]) for fits in per_type.values())
        return max(sums, default=0)

    def kept_on_draining(self) -> dict[str, int]:
        """Returns the GPUs of draining nodes that pinned jobs keep, by node."""
        kept = {i: 0 for i, node in self.nodes.items() if node.draining}
        for job in self.jobs.values() if kept else ():
            for part in job.grant.slices if job.grant and self.must_keep(job) else ():
                if part.node in kept:
                    kept[part.node] += job.request.gpus_of(part.workers)
        return kept

    @property
    def total_capacity(self) -> Resources:
        """The summed resources of usable nodes."""
        total = Resources()
        for node in self.usable.values():
            total = total + node.capacity
        return total


def masked(view: View, info: Info) -> View:
    """Returns the view with only ``info`` visible; reading anything else raises ``MaskedInformation``."""
    jobs = {i: job if job.visible == info else replace(job, visible=info) for i, job in view.jobs.items()}
    return replace(view, jobs=jobs, visible=info)
