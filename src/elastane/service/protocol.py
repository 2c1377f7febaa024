"""What the control plane can be asked to do.  The API checks who may ask; whoever implements this trusts it.

All calls but those to await are quick, and happen in the thread of the event loop.  A user's mistake is an
``ElastaneError``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from elastane.errors import ElastaneError
from elastane.service.messages import (
    EventRecord,
    JobDetail,
    JobSummary,
    LogFile,
    NodeInfo,
    PolicyInfo,
    QuotaInfo,
    Role,
    ServerInfo,
    Submitted,
    Why,
)

Which = Literal["active", "ended", "all"]


class NotFound(ElastaneError):
    """There is no such thing (or the asker may not know of it)."""


class Conflict(ElastaneError):
    """It cannot be done in the present state."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks."""

    user: str
    role: Role
    tenant: str
    expires_s: float | None = None
    """When the token they came with ends, in Unix seconds; None is never."""


class Service(Protocol):
    """The control plane as its API sees it."""

    def info(self) -> ServerInfo:
        """Who answers, and what there is."""
        ...

    async def submit(
        self, who: Principal, spec: Mapping[str, Any], directory: str, key: str | None
    ) -> Submitted:
        """Store a job, together with its entry in the audit log.

        ``SpecError`` for a wrong spec, ``ElastaneError`` for a demand no cluster of ours can meet.
        """
        ...

    def jobs(
        self, which: Which, *, owner: str | None = None, tenant: str | None = None, limit: int = 1000
    ) -> list[JobSummary]:
        """Active ones in the order of the queue; ended ones, the latest first."""
        ...

    def job(self, job: str) -> JobDetail:
        """Everything about one job, by its exact id."""
        ...

    def owner_of(self, job: str) -> tuple[str, str]:
        """(owner, tenant) of a job."""
        ...

    def why(self, job: str, *, instead: bool = False) -> Why:
        """What binds it."""
        ...

    def cancel(self, who: Principal, job: str) -> JobSummary:
        """End it for good."""
        ...

    def suspend(self, who: Principal, job: str) -> JobSummary:
        """Save it and put it on hold."""
        ...

    def resume(self, who: Principal, job: str) -> JobSummary:
        """Let it compete again."""
        ...

    def scale(self, who: Principal, job: str, workers: int | None) -> JobSummary:
        """Pin its size, or (None) leave it to the policy again."""
        ...

    def move(self, who: Principal, job: str, node: str) -> JobSummary:
        """Pin it to a node, until it is scaled or resumed."""
        ...

    def life(self, job: str) -> list[EventRecord]:
        """The job's part of the event log."""
        ...

    def logs(self, job: str) -> list[LogFile]:
        """Its log files, in order."""
        ...

    def log_path(self, job: str, attempt: int, worker: str) -> Path:
        """Where one of them lies; always below the job's own directory."""
        ...

    def nodes(self) -> list[NodeInfo]:
        """All nodes, with who is on them."""
        ...

    def drain(self, who: Principal, node: str, draining: bool) -> NodeInfo:
        """Let a node run empty, or take work again."""
        ...

    def policy(self) -> PolicyInfo:
        """How decisions are made."""
        ...

    def set_policy(self, who: Principal, written: str) -> PolicyInfo:
        """Decide by another policy from now on."""
        ...

    def set_shadow(self, who: Principal, written: str | None) -> PolicyInfo:
        """Let another policy say what it would have done."""
        ...

    def quotas(self) -> list[QuotaInfo]:
        """Of all tenants."""
        ...

    def set_quota(
        self, who: Principal, tenant: str, slots: int | None, weight: float | None, lends: bool | None
    ) -> QuotaInfo:
        """What a tenant may hold; None leaves the weight and lending as they are, and lifts the limit on slots."""
        ...

    def events(self, after: int, limit: int = 1000) -> Sequence[EventRecord]:
        """The event log after an entry."""
        ...

    async def wait_for_events(self, after: int, timeout_s: float) -> bool:
        """Until there is an entry after this one."""
        ...

    def gauges(self) -> Mapping[str, float | Mapping[str, float]]:
        """Figures for Prometheus: a number, or numbers by one label's value (``name{label}`` as the key)."""
        ...
