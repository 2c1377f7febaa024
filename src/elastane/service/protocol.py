"""The interface of the control plane to its API.  The API authorises callers; an implementation trusts them.

All calls but those to await are quick, and happen in the thread of the event loop.  A user's mistake is an
``ElastaneError``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
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
    PackageInfo,
    PolicyInfo,
    PoolInfo,
    QuotaInfo,
    Role,
    SentCode,
    ServerInfo,
    Submitted,
    Why,
)

Which = Literal["active", "ended", "all"]


class NotFound(ElastaneError):
    """There is no such thing, or the caller may not know of it."""


class Conflict(ElastaneError):
    """The request makes sense, but not in the present state."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated caller of a request."""

    user: str
    role: Role
    tenant: str
    expires_s: float | None = None
    """When the token they came with ends, in Unix seconds; None is never."""


class Service(Protocol):
    """The control plane as its API sees it."""

    def info(self) -> ServerInfo:
        """Version, policy and size of the server that answers."""
        ...

    async def submit(
        self,
        who: Principal,
        spec: Mapping[str, Any],
        directory: str,
        key: str | None,
        code: SentCode | None = None,
    ) -> Submitted:
        """Store a job, together with its entry in the audit log; ``code`` says how its directory comes to nodes.

        ``SpecError`` for a wrong spec, ``ElastaneError`` for a demand no cluster of ours can meet.
        """
        ...

    def package(self, digest: str) -> PackageInfo:
        """A package that is here; ``NotFound`` if there is none with this digest."""
        ...

    async def keep_package(self, who: Principal, digest: str, pieces: AsyncIterator[bytes]) -> PackageInfo:
        """Store a package; ``ElastaneError`` for bytes that have another digest."""
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
        """The reason that binds a job: why it waits, or is not larger."""
        ...

    def cancel(self, who: Principal, job: str) -> JobSummary:
        """End a job for good."""
        ...

    def suspend(self, who: Principal, job: str) -> JobSummary:
        """Save a job and put it on hold."""
        ...

    def resume(self, who: Principal, job: str) -> JobSummary:
        """Take a job off hold and off its node, so that it competes again."""
        ...

    def scale(self, who: Principal, job: str, workers: int | None) -> JobSummary:
        """Pin a job's number of workers, or (None) leave it to the policy again."""
        ...

    def move(self, who: Principal, job: str, node: str) -> JobSummary:
        """Pin a job to a node, until it is scaled or resumed."""
        ...

    def life(self, job: str) -> list[EventRecord]:
        """The job's part of the event log."""
        ...

    def logs(self, job: str) -> list[LogFile]:
        """Its log files, in order."""
        ...

    def log_path(self, job: str, attempt: int, worker: str) -> Path:
        """The path of one log file; always below the job's own directory."""
        ...

    def nodes(self) -> list[NodeInfo]:
        """All nodes, with their slots and their jobs."""
        ...

    def drain(self, who: Principal, node: str, draining: bool) -> NodeInfo:
        """Drain a node (no new work, running work moves away), or let it take work again."""
        ...

    def pools(self) -> list[PoolInfo]:
        """All pools, with their bounds and sizes."""
        ...

    def set_pool(
        self,
        who: Principal,
        pool: str,
        least: int | None,
        most: int | None,
        idle_s: float | None,
        budget_per_hour: float | None,
    ) -> PoolInfo:
        """Bound a pool; None leaves a bound as it is, and a budget below 0 lifts that limit."""
        ...

    def policy(self) -> PolicyInfo:
        """The policy in charge, its figures, and its shadow."""
        ...

    def set_policy(self, who: Principal, written: str) -> PolicyInfo:
        """Decide by another policy from now on."""
        ...

    def set_shadow(self, who: Principal, written: str | None) -> PolicyInfo:
        """Ask another policy beside the real one, and only compare (None: stop that)."""
        ...

    def quotas(self) -> list[QuotaInfo]:
        """The quotas of all tenants, with what they hold."""
        ...

    def set_quota(
        self, who: Principal, tenant: str, slots: int | None, weight: float | None, lends: bool | None
    ) -> QuotaInfo:
        """Change what a tenant may hold; None leaves weight and lending, and lifts the limit on slots."""
        ...

    def events(self, after: int, limit: int = 1000) -> Sequence[EventRecord]:
        """The event log after an entry."""
        ...

    async def wait_for_events(self, after: int, timeout_s: float) -> bool:
        """Wait until there is an entry after this one; False if none came in time."""
        ...

    def gauges(self) -> Mapping[str, float | Mapping[str, float]]:
        """Metrics for Prometheus: a number, or numbers by one label's value (``name{label}`` as the key)."""
        ...
