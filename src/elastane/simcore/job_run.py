"""One job in simulated time: what it holds, how far it is, what was measured of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from elastane.cluster import Batch, Grant
from elastane.jobs.kinds import JobClass, Kind
from elastane.models.estimate import Estimate
from elastane.models.history.prior import Memory
from elastane.models.online import Learner
from elastane.models.ps_learner import ServerLearner, ServerTraining
from elastane.models.stopping import StopRule
from elastane.policies.view import Request
from elastane.simcore.behaviour import Behaviour, Pace


@dataclass(frozen=True, slots=True)
class Profiled:
    """One short run on GPUs of one node before a job starts: seconds of a pass without and with
    synchronisation, and gradient noise in samples.
    """

    gpu_type: str
    workers: int
    per_gpu: int
    gradient_s: float
    step_s: float
    noise: float | None = None


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job as it is submitted.  ``declared_work`` and ``declared_s`` (on the requested workers) are its owner's words.

    ``stop`` is the owner's rule for jobs that end when their loss stops falling; ``server_training`` describes
    jobs with parameter servers.  Before the first start ``staging_s`` seconds pass in any case, and as many as it
    takes to bring ``data_gb`` from ``data_zone`` to the nodes granted.
    """

    id: str
    submit_s: float
    behaviour: Behaviour
    request: Request
    kind: Kind = Kind.ADAPTIVE
    batch: int | None = None
    tenant: str = "default"
    klass: str = "normal"
    weight: float = 1.0
    priority: int = 0
    deadline_s: float | None = None
    declared_work: float | None = None
    declared_s: float | None = None
    skew: float | None = None
    restart_s: float | None = None
    resume_s: float | None = None
    """What it costs to go on after having held nothing, where that is more than a change."""
    staging_s: float = 0.0
    stop: StopRule | None = None
    server_training: ServerTraining | None = None
    data_zone: str = ""
    data_gb: float = 0.0
    profile: tuple[Profiled, ...] = ()
    """What short runs would measure, for policies that have jobs profiled (``Needs.profile``)."""
    profile_s: float = 0.0
    """What those runs take, before the first start."""


@dataclass(slots=True)
class Span:
    """An open or closed stretch of constant allocation and batch."""

    start_s: float
    gpus: int
    nodes: int
    batch: int
    efficiency: float
    end_s: float = 0.0
    restarting_s: float = 0.0


@dataclass(slots=True)
class JobRun:
    """Mutable state of one job.  Times are absolute; work and service are exact at ``as_of_s``."""

    arrival: Arrival
    learner: Learner | None
    restart_s: float
    as_of_s: float
    server_learner: ServerLearner | None = None
    memory: Memory | None = None
    """What past jobs like it tell."""
    grant: Grant | None = None
    gpus: int = 0
    gpu_type: str = ""
    batch: Batch | None = None
    pace: Pace | None = None
    measured: bool = False
    slowdown: float = 1.0
    since_s: float | None = None
    share: float = 1.0
    """The part of the slowdown that everybody knows of: slots that share cores."""
    done: float = 0.0
    restart_left_s: float = 0.0
    service_gpu_s: float = 0.0
    held_s: float = 0.0
    restart_gpu_s: float = 0.0
    restarts: int = 0
    first_start_s: float | None = None
    last_change_s: float | None = None
    training_since_s: float = 0.0
    saved_work: float = 0.0
    finish_s: float | None = None
    version: int = 0
    losses: list[tuple[float, float]] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    forecast: tuple[int, Estimate | None] = (0, None)
    downgraded: bool = False
    """Its policy took it in as opportunistic, whatever it was submitted as."""

    @property
    def id(self) -> str:
        """The id the job was submitted under."""
        return self.arrival.id

    @property
    def klass(self) -> str:
        """What it may expect when the cluster is full."""
        return JobClass.OPPORTUNISTIC.value if self.downgraded else self.arrival.klass

    @property
    def workers(self) -> int:
        """The number of workers the job holds now."""
        return self.grant.workers if self.grant else 0

    def hold(self, grant: Grant | None) -> None:
        """Take over a grant; what it holds in GPUs is kept, because it is asked for at every turn."""
        self.grant, self.pace = grant, None
        self.gpus = self.arrival.request.gpus_held(grant)

    def expected_end(self) -> Estimate | None:
        """Work after which the loss will have settled; forecast anew only after new losses."""
        stop = self.arrival.stop
        if stop is not None and len(self.losses) != self.forecast[0]:
            self.forecast = len(self.losses), stop.expected_end(self.losses)
        return self.forecast[1]

    def _pass_time(self, seconds: float) -> None:
        self.as_of_s += seconds
        gpus = self.gpus
        if gpus:
            self.service_gpu_s += gpus * seconds
            self.held_s += seconds

    def refresh_pace(self) -> Pace:
        """The present pace, computed anew if grant, batch or segment changed."""
        if self.pace is None:
            assert self.grant is not None
            self.pace = self.arrival.behaviour.pace(self.grant, self.gpu_type, self.batch, self.done)
            self.measured = False
        return self.pace

    def seconds_to_segment_end(self) -> float:
        """How long until the pace changes by itself, restart included."""
        pace = self.refresh_pace()
        rate = pace.rate * self.slowdown
        if rate <= 0.0:
            return float("inf")
        return self.restart_left_s + max(pace.until_work - self.done, 0.0) / rate

    def advance(
        self,
        to_s: float,
        at_segment_end: Callable[[JobRun], None],
        measure: Callable[[JobRun, Pace], None],
        whole_seconds: bool = False,
    ) -> None:
        """Let time pass until ``to_s`` or the end of the job.

        ``at_segment_end`` is called whenever the pace has run out (the job may then change its batch);
        ``measure`` once for every pace under which training really happened.
        """
        while self.as_of_s < to_s and self.finish_s is None:
            if self.grant is None:
                self._pass_time(to_s - self.as_of_s)
                return
            if self.restart_left_s > 0.0:
                self._restart(to_s)
                continue
            pace = self.refresh_pace()
            if not self.measured:
                self.measured = True
                measure(self, pace)
            rate = pace.rate * self.slowdown
            left_s = to_s - self.as_of_s
            # Less than a nanosecond, or less than the clock can tell apart, is not worth another event.
            slack_s = max(1e-9, 2.0 * math.ulp(to_s))
            if self.done + rate * left_s < pace.until_work - slack_s * rate:
                self.done += rate * left_s
                self._pass_time(left_s)
                self.as_of_s = to_s
                return
            need_s = (pace.until_work - self.done) / rate if rate > 0.0 else 0.0
            self._pass_time(min(round(need_s) if whole_seconds else need_s, left_s))
            self._cross(pace, at_segment_end)

    def _restart(self, to_s: float) -> None:
        delay = min(self.restart_left_s, to_s - self.as_of_s)
        self.restart_left_s -= delay
        self.restart_gpu_s += delay * self.gpus
        if self.spans:
            self.spans[-1].restarting_s += delay
        self._pass_time(delay)
        if self.restart_left_s <= 0.0:
            self.training_since_s = self.as_of_s

    def _cross(self, pace: Pace, at_segment_end: Callable[[JobRun], None]) -> None:
        self.done = pace.until_work
        self.pace = None
        if self.done >= self.arrival.behaviour.total_work * (1.0 - 1e-12):
            self.finish_s = self.as_of_s
            self.close_span()
        else:
            at_segment_end(self)

    def open_span(self, efficiency: float) -> None:
        """Begin a stretch if allocation or batch differ from the last one."""
        gpus = self.gpus
        nodes = len(self.grant.slices) if self.grant else 0
        batch = self.batch.total(self.workers) if self.batch and gpus else 0
        if self.spans and not self.spans[-1].end_s:
            last = self.spans[-1]
            same = (last.gpus, last.nodes, last.batch) == (gpus, nodes, batch)
            if same and abs(efficiency - last.efficiency) <= 0.02 * last.efficiency:
                return
            self.close_span()
        if gpus:
            self.spans.append(Span(self.as_of_s, gpus, nodes, batch, efficiency))

    def close_span(self) -> None:
        """End the open stretch, dropping it if it lasted no time."""
        if self.spans and not self.spans[-1].end_s:
            if self.as_of_s > self.spans[-1].start_s:
                self.spans[-1].end_s = self.as_of_s
            else:
                self.spans.pop()
