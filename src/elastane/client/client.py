"""The client: one method per verb.  Everything it returns is a message of ``elastane.service.messages``."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self, TypeVar

from pydantic import BaseModel

from elastane.client import streams
from elastane.client.errors import NotFoundError, checked
from elastane.client.locate_server import find
from elastane.client.wire import Wire, path_of
from elastane.service.api.requests import (
    AddUser,
    ChoosePolicy,
    ChooseShadow,
    MakeToken,
    Move,
    Scale,
    SetPool,
    SetQuota,
    SetRole,
)
from elastane.service.messages import (
    AuditRecord,
    EventRecord,
    JobDetail,
    JobSummary,
    LogFile,
    NewToken,
    NodeInfo,
    PackagedCode,
    PackageInfo,
    PolicyInfo,
    PoolInfo,
    QuotaInfo,
    Role,
    ServerInfo,
    SharedCode,
    Submission,
    Submitted,
    TokenInfo,
    UserInfo,
    Why,
)

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class LogPart:
    """A part of a log, and where the next read should start."""

    text: bytes
    next_offset: int


class Client:
    """A connection to a running Elastane; one method per verb.

    ``url`` and ``token`` default to $ELASTANE_URL and $ELASTANE_TOKEN, else to the files of $ELASTANE_HOME.

    >>> with Client() as elastane:  # doctest: +SKIP
    ...     job = elastane.submit({"command": "python train.py"})
    ...     print(elastane.job(job.id).state)
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, timeout_s: float = 10) -> None:
        self._wire = Wire(find(url, token), timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections to the server."""
        self._wire.close()

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._wire.address.url

    def _get(self, model: type[M], path: str, **query: str | int | bool | None) -> M:
        return model.model_validate_json(self._wire.ask("GET", path, query=query).content)

    def _list(self, model: type[M], path: str, **query: str | int | bool | None) -> list[M]:
        entries = json.loads(self._wire.ask("GET", path, query=query).content)
        return [model.model_validate(entry) for entry in entries]

    def _do(self, model: type[M], method: str, path: str, body: BaseModel | None = None) -> M:
        return model.model_validate_json(self._wire.ask(method, path, body=body).content)

    def info(self) -> ServerInfo:
        """Version, policy and size of the server that answers."""
        return self._get(ServerInfo, "/info")

    def whoami(self) -> UserInfo:
        """The user that the token belongs to."""
        return self._get(UserInfo, "/whoami")

    def submit(
        self,
        spec: Mapping[str, Any],
        *,
        directory: str | Path | None = None,
        key: str | None = None,
        code: SharedCode | PackagedCode | None = None,
    ) -> Submitted:
        """Hand in a job.  However often the network makes us repeat it, it is one job; as with an own ``key``.

        ``code`` says how the directory comes to nodes on other machines (``send_directory`` makes a package of it).
        """
        where = str(Path.cwd() if directory is None else Path(directory).absolute())
        body = checked(Submission, spec=dict(spec), directory=where, key=key or str(uuid.uuid4()), code=code)
        answer = self._wire.ask("POST", "/jobs", body=body, again=True)
        return Submitted.model_validate_json(answer.content)

    def has_package(self, digest: str) -> bool:
        """Whether the service has the package with this digest; it then stays for at least an hour."""
        try:
            self._get(PackageInfo, path_of("packages", digest))
        except NotFoundError:
            return False
        return True

    def send_package(
        self, digest: str, file: IO[bytes], sent: Callable[[int, int], object] | None = None
    ) -> PackageInfo:
        """Send the archive of a package; ``sent`` hears how many bytes are on their way, and of how many."""
        answer = self._wire.send_file("PUT", path_of("packages", digest), file, sent)
        return PackageInfo.model_validate_json(answer.content)

    def jobs(
        self,
        which: Literal["active", "ended", "all"] = "active",
        *,
        owner: str | None = None,
        tenant: str | None = None,
        limit: int = 1000,
    ) -> list[JobSummary]:
        """Active ones in the order of the queue; ended ones, the latest first."""
        return self._list(JobSummary, "/jobs", which=which, owner=owner, tenant=tenant, limit=limit)

    def job(self, job: str) -> JobDetail:
        """Everything about one job."""
        return self._get(JobDetail, path_of("jobs", job))

    def why(self, job: str, *, instead: bool = False) -> Why:
        """What keeps a job from running or growing."""
        return self._get(Why, path_of("jobs", job, "why"), instead=instead)

    def cancel(self, job: str) -> JobSummary:
        """End a job for good."""
        return self._do(JobSummary, "POST", path_of("jobs", job, "cancel"))

    def suspend(self, job: str) -> JobSummary:
        """Save a job and put it on hold."""
        return self._do(JobSummary, "POST", path_of("jobs", job, "suspend"))

    def resume(self, job: str) -> JobSummary:
        """Take a job off hold, so that it competes again."""
        return self._do(JobSummary, "POST", path_of("jobs", job, "resume"))

    def scale(self, job: str, workers: int | None) -> JobSummary:
        """Pin a job's size, or (None) leave it to the policy again."""
        return self._do(JobSummary, "POST", path_of("jobs", job, "scale"), checked(Scale, workers=workers))

    def move(self, job: str, node: str) -> JobSummary:
        """Pin a job to a node."""
        return self._do(JobSummary, "POST", path_of("jobs", job, "move"), checked(Move, node=node))

    def life(self, job: str) -> list[EventRecord]:
        """The job's part of the event log."""
        return self._list(EventRecord, path_of("jobs", job, "events"))

    def logs(self, job: str) -> list[LogFile]:
        """A job's log files, in order."""
        return self._list(LogFile, path_of("jobs", job, "logs"))

    def log(self, job: str, attempt: int, worker: str, *, offset: int = 0, limit: int = 1_048_576) -> LogPart:
        """A part of a log; empty at its end."""
        path = path_of("jobs", job, "logs", attempt, worker)
        answer = self._wire.ask("GET", path, query={"offset": offset, "limit": limit})
        return LogPart(answer.content, int(answer.headers["x-next-offset"]))

    def follow_logs(self, job: str, worker: str | None = None) -> Iterator[str]:
        """A job's output from its latest attempt on, until it has ended; the leader's unless a worker is named."""
        return streams.follow_logs(self._wire, job, worker)

    def events(self, after: int = 0, *, follow: bool = True) -> Iterator[EventRecord]:
        """Events after an entry, as they happen, without end (or only those so far); reconnects by itself."""
        return streams.events(self._wire, after, follow)

    def nodes(self) -> list[NodeInfo]:
        """All nodes, with their slots and their jobs."""
        return self._list(NodeInfo, "/nodes")

    def drain(self, node: str) -> NodeInfo:
        """Give a node no new work and move away what runs there."""
        return self._do(NodeInfo, "POST", path_of("nodes", node, "drain"))

    def undrain(self, node: str) -> NodeInfo:
        """Let a drained node take work again."""
        return self._do(NodeInfo, "POST", path_of("nodes", node, "undrain"))

    def pools(self) -> list[PoolInfo]:
        """All pools of nodes, with their bounds and sizes."""
        return self._list(PoolInfo, "/pools")

    def set_pool(
        self,
        pool: str,
        *,
        least: int | None = None,
        most: int | None = None,
        idle_s: float | None = None,
        budget_per_hour: float | None = None,
    ) -> PoolInfo:
        """Bound a pool; what is None stays as it is, and a budget of -1 is no limit."""
        wish = checked(SetPool, least=least, most=most, idle_s=idle_s, budget_per_hour=budget_per_hour)
        return self._do(PoolInfo, "PUT", path_of("pools", pool), wish)

    def policy(self) -> PolicyInfo:
        """How decisions are made."""
        return self._get(PolicyInfo, "/policy")

    def set_policy(self, policy: str) -> PolicyInfo:
        """Decide by another policy from now on."""
        return self._do(PolicyInfo, "PUT", "/policy", checked(ChoosePolicy, policy=policy))

    def set_shadow(self, policy: str | None) -> PolicyInfo:
        """Ask another policy beside the real one, and only compare (None: stop that)."""
        return self._do(PolicyInfo, "PUT", "/policy/shadow", checked(ChooseShadow, policy=policy))

    def quotas(self) -> list[QuotaInfo]:
        """What tenants may hold."""
        return self._list(QuotaInfo, "/quotas")

    def set_quota(
        self, tenant: str, slots: int | None, *, weight: float | None = None, lends: bool | None = None
    ) -> QuotaInfo:
        """Say what a tenant may hold; no slots is no limit, and None leaves the rest as it is."""
        wish = checked(SetQuota, slots=slots, weight=weight, lends=lends)
        return self._do(QuotaInfo, "PUT", path_of("quotas", tenant), wish)

    def users(self) -> list[UserInfo]:
        """All users, with roles and tenants."""
        return self._list(UserInfo, "/users")

    def add_user(self, name: str, role: Role = "user", tenant: str = "default") -> UserInfo:
        """Add a user, who needs a token next."""
        return self._do(UserInfo, "POST", "/users", checked(AddUser, name=name, role=role, tenant=tenant))

    def remove_user(self, name: str) -> None:
        """Remove a user together with all tokens."""
        self._wire.ask("DELETE", path_of("users", name))

    def set_role(self, name: str, role: Role) -> UserInfo:
        """Give a user other rights."""
        return self._do(UserInfo, "PUT", path_of("users", name, "role"), checked(SetRole, role=role))

    def tokens(self, user: str | None = None) -> list[TokenInfo]:
        """One's own tokens, or (an admin) those of a user or of all."""
        return self._list(TokenInfo, "/tokens", user=user)

    def new_token(
        self, user: str | None = None, *, label: str = "", lifetime_s: float | None = None
    ) -> NewToken:
        """A token for oneself, or (an admin) for another.  It is shown this once."""
        wish = checked(MakeToken, user=user, label=label, lifetime_s=lifetime_s)
        return self._do(NewToken, "POST", "/tokens", wish)

    def revoke_token(self, token_id: str) -> None:
        """Refuse a token from now on."""
        self._wire.ask("DELETE", path_of("tokens", token_id))

    def audit(self, after: int = 0, limit: int = 1000) -> list[AuditRecord]:
        """The audit log: who asked for which change; the oldest first."""
        return self._list(AuditRecord, "/audit", after=after, limit=limit)
