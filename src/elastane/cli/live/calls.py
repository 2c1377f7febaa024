"""What the verbs ask of a server: the part of ``elastane.client.Client`` that they use, and how they get one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

Which = Literal["active", "ended", "all"]

if TYPE_CHECKING:
    from elastane.client.client import LogPart
    from elastane.service.messages import (
        EventRecord,
        JobDetail,
        JobSummary,
        LogFile,
        NewToken,
        NodeInfo,
        PolicyInfo,
        QuotaInfo,
        Role,
        ServerInfo,
        Submitted,
        TokenInfo,
        UserInfo,
        Why,
    )


class Calls(Protocol):
    """One method per verb; a refusal is an ``ElastaneError``."""

    def info(self) -> ServerInfo:
        """Who answers, and what there is."""
        ...

    def whoami(self) -> UserInfo:
        """Whose token it is."""
        ...

    def submit(self, spec: Mapping[str, Any], /, *, directory: str, key: str | None = None) -> Submitted:
        """Store a job."""
        ...

    def jobs(
        self,
        which: Which = "active",
        /,
        *,
        owner: str | None = None,
        tenant: str | None = None,
        limit: int = 1000,
    ) -> list[JobSummary]:
        """Active ones in the order of the queue; ended ones, the latest first."""
        ...

    def job(self, id: str, /) -> JobDetail:
        """Everything about one job."""
        ...

    def why(self, id: str, /, *, instead: bool = False) -> Why:
        """What binds it."""
        ...

    def cancel(self, id: str, /) -> JobSummary:
        """End it for good."""
        ...

    def suspend(self, id: str, /) -> JobSummary:
        """Save it and put it on hold."""
        ...

    def resume(self, id: str, /) -> JobSummary:
        """Let it compete again."""
        ...

    def scale(self, id: str, workers: int | None, /) -> JobSummary:
        """Pin its size, or leave it to the policy again."""
        ...

    def move(self, id: str, node: str, /) -> JobSummary:
        """Pin it to a node."""
        ...

    def logs(self, id: str, /) -> list[LogFile]:
        """Its log files, in order."""
        ...

    def log(self, id: str, attempt: int, worker: str, /, *, offset: int = 0) -> LogPart:
        """A part of one of them, from a byte on; an empty part is the end."""
        ...

    def follow_logs(self, id: str, worker: str | None = None, /) -> Iterator[str]:
        """What the leader or a worker writes, from the latest attempt on until the job ends."""
        ...

    def nodes(self) -> list[NodeInfo]:
        """All nodes, with who is on them."""
        ...

    def drain(self, node: str, /) -> NodeInfo:
        """Let a node run empty."""
        ...

    def undrain(self, node: str, /) -> NodeInfo:
        """Let it take work again."""
        ...

    def policy(self) -> PolicyInfo:
        """How decisions are made."""
        ...

    def set_policy(self, written: str, /) -> PolicyInfo:
        """Decide by another policy from now on."""
        ...

    def set_shadow(self, written: str | None, /) -> PolicyInfo:
        """Let another policy say what it would have done."""
        ...

    def quotas(self) -> list[QuotaInfo]:
        """Of all tenants."""
        ...

    def set_quota(
        self, tenant: str, slots: int | None, /, *, weight: float | None = None, lends: bool | None = None
    ) -> QuotaInfo:
        """What a tenant may hold; None lifts the limit on slots and leaves the others as they are."""
        ...

    def users(self) -> list[UserInfo]:
        """Everybody who may log in."""
        ...

    def add_user(self, name: str, role: Role, tenant: str, /) -> UserInfo:
        """Let somebody in."""
        ...

    def remove_user(self, name: str, /) -> object:
        """Let somebody in no longer."""
        ...

    def tokens(self, user: str | None = None, /) -> list[TokenInfo]:
        """Without what makes them tokens."""
        ...

    def new_token(self, user: str | None, /, *, label: str = "", lifetime_s: float | None = None) -> NewToken:
        """A token for a user (None: for oneself); the only time it is seen."""
        ...

    def revoke_token(self, id: str, /) -> object:
        """It opens nothing any more."""
        ...

    def events(self, after: int = 0, /, *, follow: bool = True) -> Iterator[EventRecord]:
        """The event log after an entry, and then (following) what is added to it, without end."""
        ...


def connect() -> Calls:
    """A client of the server that this machine's settings name."""
    from elastane.client import Client

    return Client()
