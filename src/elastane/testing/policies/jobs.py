"""Jobs of the tests' small world: constant speed, an exact ledger, and what a policy sees of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from elastane.cluster import Grant
from elastane.jobs.kinds import JobClass, Kind
from elastane.models.estimate import Estimate, Provenance
from elastane.models.goodput import GoodputModel
from elastane.models.speed import SpeedModel
from elastane.policies.contract import Needs
from elastane.policies.view import JobView, Ledger, Request
from elastane.scheduling.facts import JobFacts
from elastane.scheduling.views import job_view
from elastane.testing.policies.views import speed_model


@dataclass(frozen=True, slots=True)
class Trial:
    """A job of a test: ``seconds`` long if it ran all the time with the workers it asks for, on one node."""

    id: str
    submit_s: float
    seconds: float
    request: Request = Request()
    kind: Kind = Kind.ADAPTIVE
    model: GoodputModel = field(default_factory=speed_model)
    tenant: str = "default"
    klass: JobClass = JobClass.NORMAL
    weight: float = 1.0
    priority: int = 0
    deadline_s: float | None = None

    def rate(self, nodes: int, workers: int) -> float:
        """Returns the work per second on so many nodes and workers."""
        return float(self.model.rates(np.array([nodes]), np.array([workers]))[0])

    @property
    def work(self) -> float:
        """The work of the whole job, in the unit of its rates."""
        return self.seconds * self.rate(1, self.request.workers)

    @property
    def slowest_s(self) -> float:
        """How long it would take with the least useful allocation it may be given."""
        request = self.request
        sizes = {request.workers, *range(request.min_workers, request.max_workers + 1)}
        shapes = [(nodes, size) for size in sizes for nodes in ((1,) if size == 1 else (1, 2))]
        return self.work / min(self.rate(*shape) for shape in shapes)


@dataclass(slots=True)
class Run:
    """The state of one job of the small world while it is there."""

    trial: Trial
    left: float
    grant: Grant | None = None
    rate: float = 0.0
    service_gpu_s: float = 0.0
    held_s: float = 0.0
    first_start_s: float | None = None
    last_change_s: float | None = None
    restarts: int = 0
    since_s: float | None = None
    model: GoodputModel | None = None
    downgraded: bool = False

    @property
    def klass(self) -> JobClass:
        """What it may expect when the cluster is full."""
        return JobClass.OPPORTUNISTIC if self.downgraded else self.trial.klass

    @property
    def gpus(self) -> int:
        """The GPUs that it holds now."""
        return self.trial.request.gpus_held(self.grant)

    def pass_time(self, seconds: float) -> None:
        """Work, if it holds anything."""
        if self.grant:
            self.left -= self.rate * seconds
            self.service_gpu_s += self.gpus * seconds
            self.held_s += seconds

    def change(self, grant: Grant | None, now_s: float) -> None:
        """Take the old grant away and give the new one."""
        self.since_s = now_s if self.grant is None else self.since_s
        self.grant, self.last_change_s = grant, now_s
        if grant is None:
            return
        self.rate = self.trial.rate(len(grant.slices), grant.workers)
        self.restarts += self.first_start_s is not None
        if self.first_start_s is None:
            self.first_start_s = now_s
        if self.model is None or self.model.max_profiled < grant.workers:
            self.model = replace(self.trial.model, max_profiled=grant.workers)

    def view(self, now_s: float, needs: Needs) -> JobView:
        """What a policy with these needs sees of it; speed is known once it has run, to an oracle before."""
        ledger = (
            self.gpus,
            self.service_gpu_s,
            self.held_s,
            self.first_start_s,
            self.last_change_s,
            self.restarts,
        )
        facts = JobFacts(
            id=self.trial.id,
            submit_s=self.trial.submit_s,
            request=self.trial.request,
            kind=self.trial.kind,
            tenant=self.trial.tenant,
            klass=self.klass.value,
            weight=self.trial.weight,
            priority=self.trial.priority,
            evidence=_Evidence(self, needs.oracle),
            grant=self.grant,
            ledger=Ledger(now_s, *ledger, self.since_s),
        )
        return job_view(facts, needs.info)


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What is known of a job of the small world: exactly what is left, and its speed once it has run."""

    run: Run
    oracle: bool

    def remaining(self) -> Estimate | None:
        return Estimate(self.run.left, source=Provenance.ORACLE)

    def speed(self) -> SpeedModel | None:
        model = self.run.trial.model
        if self.oracle:
            return replace(model, max_profiled=model.max_useful, source=Provenance.ORACLE)
        return self.run.model

    def losses(self) -> Sequence[tuple[float, float]]:
        return ()

    def declared_s(self) -> float | None:
        return None

    def deadline_s(self) -> float | None:
        return self.run.trial.deadline_s

    def skew(self) -> float | None:
        return None
