"""The facts that a world must state of its jobs and of itself before anything can be decided."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from elastane.cluster import Grant, Node
from elastane.jobs.kinds import Kind
from elastane.models.estimate import Estimate
from elastane.models.speed import SpeedModel
from elastane.policies.view import Ability, Ledger, Request, Tenant, has
from elastane.scheduling.abilities_by_kind import ABILITIES


class Evidence(Protocol):
    """What has been learned or declared of a job; each question is asked only if the policy may see the answer."""

    def remaining(self) -> Estimate | None:
        """Work still to do, in the unit of ``speed``."""
        ...

    def declared_s(self) -> float | None:
        """The whole run time its owner declared, on the workers requested."""
        ...

    def speed(self) -> SpeedModel | None:
        """Work per second for any allocation."""
        ...

    def losses(self) -> Sequence[tuple[float, float]]:
        """(work done, loss) so far."""
        ...

    def deadline_s(self) -> float | None:
        """When the owner needs the result."""
        ...

    def skew(self) -> float | None:
        """Share of the largest tensor in the model."""
        ...


@dataclass(frozen=True, slots=True)
class JobFacts:
    """One unfinished job as its world knows it.

    ``restart_s`` is what a change of its grant would cost.  ``settled`` jobs keep what they hold: their owner has put
    them there, or they are on their way out.
    """

    id: str
    submit_s: float
    request: Request
    kind: Kind
    evidence: Evidence
    app: str = ""
    tenant: str = "default"
    klass: str = "normal"
    weight: float = 1.0
    priority: int = 0
    grant: Grant | None = None
    ledger: Ledger = Ledger()
    restart_s: float = 0.0
    settled: bool = False

    @property
    def abilities(self) -> Ability:
        """What may be done to it now."""
        return Ability.NONE if self.settled else ABILITIES[self.kind]

    @property
    def returns(self) -> bool:
        """Whether it can be made to give back what it holds."""
        return self.request.preemptible and has(self.abilities, Ability.SUSPEND)


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything a decision depends on besides the jobs.

    ``seed`` is that of the whole run, ``decisions`` how many were made before this one.
    ``nodes`` are those that answer, ``known`` the names of all that there should be.
    """

    now_s: float
    nodes: Mapping[str, Node]
    known: Collection[str]
    trigger: str = "tick"
    tenants: Mapping[str, Tenant] = field(default_factory=dict)
    memory: Any = None
    seed: int = 0
    decisions: int = 0
    finished_service_gpu_s: Sequence[float] = ()
    min_run_s: float = 0.0

    @property
    def missing(self) -> tuple[str, ...]:
        """Known nodes that do not answer, by name: sorted, as the order of listing means nothing."""
        return tuple(sorted(set(self.known) - self.nodes.keys()))
