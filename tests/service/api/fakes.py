"""A control plane and accounts in memory: real behaviour where it is cheap, so that tests need no mocks."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elastane.errors import ElastaneError
from elastane.jobs import parse_spec
from elastane.service.messages import (
    Ahead,
    AuditRecord,
    EventRecord,
    JobDetail,
    JobSummary,
    LogFile,
    NewToken,
    NodeInfo,
    PackageInfo,
    PolicyInfo,
    PoolInfo,
    QuotaInfo,
    Role,
    SentCode,
    ServerInfo,
    Submitted,
    TokenInfo,
    UserInfo,
    Why,
)
from elastane.service.protocol import Conflict, NotFound, Principal, Which


class FakeAccounts:
    """Users by name; a token of user ``x`` is ``t-x`` unless it was made by ``new_token``."""

    def __init__(self) -> None:
        self.people: dict[str, UserInfo] = {}
        self.made: dict[str, NewToken] = {}
        self.revoked: set[str] = set()
        self.entries: list[AuditRecord] = []

    def authenticate(self, token: str) -> Principal | None:
        for held in self.made.values():
            if held.token == token and held.id not in self.revoked and held.user in self.people:
                user = self.people[held.user]
                return Principal(user.name, user.role, user.tenant, held.expires_s)
        return None

    def users(self) -> list[UserInfo]:
        return list(self.people.values())

    def add_user(self, name: str, role: Role, tenant: str) -> UserInfo:
        if name in self.people:
            raise Conflict(f"user {name} is there already")
        self.people[name] = UserInfo(name=name, role=role, tenant=tenant)
        return self.people[name]

    def remove_user(self, name: str) -> None:
        if self.people.pop(name, None) is None:
            raise NotFound(f"there is no user {name}")

    def set_role(self, name: str, role: Role) -> UserInfo:
        if name not in self.people:
            raise NotFound(f"there is no user {name}")
        self.people[name] = self.people[name].model_copy(update={"role": role})
        return self.people[name]

    def tokens(self, user: str | None = None) -> list[TokenInfo]:
        return [TokenInfo(**made.model_dump()) for made in self.made.values() if user in (None, made.user)]

    def new_token(self, user: str, label: str, expires_s: float | None) -> NewToken:
        if user not in self.people:
            raise NotFound(f"there is no user {user}")
        name = f"k{len(self.made)}"
        made = NewToken(
            id=name, user=user, label=label, created_s=0, expires_s=expires_s, token=f"secret-{name}"
        )
        self.made[name] = made
        return made

    def revoke_token(self, token_id: str) -> TokenInfo:
        if token_id not in self.made:
            raise NotFound(f"there is no token {token_id}")
        self.revoked.add(token_id)
        return TokenInfo(**self.made[token_id].model_dump() | {"revoked": True})

    def audit(self, who: str, action: str, target: str, outcome: str) -> None:
        entry = AuditRecord(
            seq=len(self.entries) + 1, at_s=0, user=who, action=action, target=target, outcome=outcome
        )
        self.entries.append(entry)

    def audit_log(self, after: int, limit: int) -> list[AuditRecord]:
        return [entry for entry in self.entries if entry.seq > after][:limit]

    def known(self, name: str, role: Role, tenant: str) -> str:
        """A user who exists, and the token ``t-name`` for them."""
        self.add_user(name, role, tenant)
        token = f"t-{name}"
        self.made[f"of-{name}"] = NewToken(id=f"of-{name}", user=name, created_s=0, token=token)
        return token


POOL = PoolInfo(name="spot", accelerator="a100", slots=8, now=1, wanted=1, least=0, most=4, idle_s=300.0)


@dataclass
class FakeService:
    """Jobs that never run.  Logs lie under ``home/jobs/ID/logs``."""

    home: Path
    details: dict[str, JobDetail] = field(default_factory=dict)
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    log: list[EventRecord] = field(default_factory=list)
    bounds: dict[str, Any] = field(default_factory=dict)
    drained: set[str] = field(default_factory=set)
    held_quotas: dict[str, QuotaInfo] = field(default_factory=dict)
    chosen: PolicyInfo = field(default_factory=lambda: PolicyInfo(policy="elastane"))
    packages: dict[str, bytes] = field(default_factory=dict)
    codes: dict[str, SentCode | None] = field(default_factory=dict)
    """What each job was submitted with."""
    breaks: Exception | None = None
    """Raised by ``info``, as a defect would be."""
    accounts: FakeAccounts | None = None
    """Who has the audit log."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def info(self) -> ServerInfo:
        if self.breaks:
            raise self.breaks
        return ServerInfo(version="0", home=str(self.home), started_s=0, policy="elastane", slots=4, nodes=2)

    async def submit(
        self,
        who: Principal,
        spec: Mapping[str, Any],
        directory: str,
        key: str | None,
        code: SentCode | None = None,
    ) -> Submitted:
        made = self.add(who, spec, directory, key)
        self.codes[made.id] = code
        if not made.repeated and self.accounts is not None:
            self.accounts.audit(who.user, "submit_job", made.id, "ok")
        return made

    def add(self, who: Principal, spec: Mapping[str, Any], directory: str, key: str | None) -> Submitted:
        if key and (who.user, key) in self.keys:
            job = self.details[self.keys[who.user, key]]
            return Submitted(id=job.id, name=job.name, repeated=True)
        parsed = parse_spec(dict(spec))
        if parsed.workers.min > 4:
            raise ElastaneError(f"workers: {parsed.workers.min} are wanted and the cluster has 4")
        job = f"j{len(self.details) + 1}"
        self.details[job] = JobDetail(
            id=job,
            name=parsed.name,
            tenant=parsed.tenant,
            owner=who.user,
            state="queued",
            kind=parsed.kind.value,
            submitted_s=0,
            attempt=1,
            spec=dict(spec),
            directory=directory,
        )
        if key:
            self.keys[who.user, key] = job
        self.happened("submitted", job)
        return Submitted(id=job, name=parsed.name)

    def package(self, digest: str) -> PackageInfo:
        if digest not in self.packages:
            raise NotFound(f"there is no package {digest}")
        return PackageInfo(digest=digest, bytes=len(self.packages[digest]))

    async def keep_package(self, who: Principal, digest: str, pieces: AsyncIterator[bytes]) -> PackageInfo:
        data = b"".join([piece async for piece in pieces])
        if hashlib.sha256(data).hexdigest() != digest:
            raise ElastaneError("another digest")
        self.packages[digest] = data
        return self.package(digest)

    def jobs(
        self, which: Which, *, owner: str | None = None, tenant: str | None = None, limit: int = 1000
    ) -> list[JobSummary]:
        found = [
            JobSummary(**job.model_dump())
            for job in self.details.values()
            if owner in (None, job.owner) and tenant in (None, job.tenant)
            if which == "all" or (job.ended_s is None) == (which == "active")
        ]
        return found[:limit]

    def job(self, job: str) -> JobDetail:
        if job not in self.details:
            raise NotFound(f"no job {job}")
        return self.details[job]

    def owner_of(self, job: str) -> tuple[str, str]:
        return self.job(job).owner, self.job(job).tenant

    def why(self, job: str, *, instead: bool = False) -> Why:
        ahead = [
            Ahead(id=other.id, name=other.name, owner=other.owner, workers=1, state=other.state)
            for other in self.details.values()
            if other.id != job
        ]
        return Why(id=job, state=self.job(job).state, reason="no slot is free", ahead=ahead)

    def cancel(self, who: Principal, job: str) -> JobSummary:
        if self.job(job).ended_s is not None:
            raise Conflict(f"job {job} has ended; nothing is left to cancel")
        return self.change(job, "cancelled", state="cancelled", ended_s=1.0)

    def suspend(self, who: Principal, job: str) -> JobSummary:
        return self.change(job, "suspended", held=True)

    def resume(self, who: Principal, job: str) -> JobSummary:
        return self.change(job, "resumed", held=False)

    def scale(self, who: Principal, job: str, workers: int | None) -> JobSummary:
        return self.change(job, "scaled", pinned=workers)

    def move(self, who: Principal, job: str, node: str) -> JobSummary:
        self._node(node)
        return self.change(job, "moved", nodes={node: 1})

    def change(self, job: str, kind: str, **values: Any) -> JobSummary:
        self.details[job] = self.job(job).model_copy(update=values)
        self.happened(kind, job)
        return JobSummary(**self.details[job].model_dump())

    def life(self, job: str) -> list[EventRecord]:
        return [event for event in self.log if event.job == job]

    def logs(self, job: str) -> list[LogFile]:
        folder = self.home / "jobs" / job / "logs"
        return [
            LogFile(attempt=int(path.parent.name), worker=path.stem, bytes=path.stat().st_size, leader=True)
            for path in sorted(folder.glob("*/*.log"))
        ]

    def log_path(self, job: str, attempt: int, worker: str) -> Path:
        return self.home / "jobs" / job / "logs" / str(attempt) / f"{worker}.log"

    def nodes(self) -> list[NodeInfo]:
        return [self._node("n0"), self._node("n1")]

    def _node(self, node: str) -> NodeInfo:
        if node not in ("n0", "n1"):
            raise NotFound(f"there is no node {node}")
        jobs = {job.id: job.nodes[node] for job in self.details.values() if node in job.nodes}
        state = "draining" if node in self.drained else "up"
        return NodeInfo(id=node, slots=2, used=sum(jobs.values()), accelerator="cpu", state=state, jobs=jobs)

    def drain(self, who: Principal, node: str, draining: bool) -> NodeInfo:
        self._node(node)
        (self.drained.add if draining else self.drained.discard)(node)
        return self._node(node)

    def pools(self) -> list[PoolInfo]:
        return [POOL.model_copy(update=self.bounds)]

    def set_pool(
        self,
        who: Principal,
        pool: str,
        least: int | None,
        most: int | None,
        idle_s: float | None,
        budget_per_hour: float | None,
    ) -> PoolInfo:
        if pool != POOL.name:
            raise NotFound(f"there is no pool {pool}")
        given = {"least": least, "most": most, "idle_s": idle_s, "budget_per_hour": budget_per_hour}
        self.bounds |= {name: value for name, value in given.items() if value is not None}
        return self.pools()[0]

    def policy(self) -> PolicyInfo:
        return self.chosen

    def set_policy(self, who: Principal, written: str) -> PolicyInfo:
        if not written.isalnum():
            raise ElastaneError(f"policy: there is none called {written!a}")
        self.chosen = self.chosen.model_copy(update={"policy": written})
        return self.chosen

    def set_shadow(self, who: Principal, written: str | None) -> PolicyInfo:
        self.chosen = self.chosen.model_copy(update={"shadow": written})
        return self.chosen

    def quotas(self) -> list[QuotaInfo]:
        return list(self.held_quotas.values())

    def set_quota(
        self, who: Principal, tenant: str, slots: int | None, weight: float | None, lends: bool | None
    ) -> QuotaInfo:
        held = self.held_quotas.get(tenant, QuotaInfo(tenant=tenant))
        given = {"slots": slots, "weight": weight or held.weight}
        self.held_quotas[tenant] = held.model_copy(
            update=given | {"lends": held.lends if lends is None else lends}
        )
        return self.held_quotas[tenant]

    def happened(self, kind: str, job: str | None = None, **body: Any) -> None:
        self.log.append(EventRecord(seq=len(self.log) + 1, at_s=0, kind=kind, job=job, body=body))
        self._news.set()

    def events(self, after: int, limit: int = 1000) -> Sequence[EventRecord]:
        return self.log[after : after + limit]

    async def wait_for_events(self, after: int, timeout_s: float) -> bool:
        if len(self.log) <= after:
            self._news = asyncio.Event()
            try:
                await asyncio.wait_for(self._news.wait(), timeout_s)
            except TimeoutError:
                return False
        return True

    def gauges(self) -> Mapping[str, float | Mapping[str, float]]:
        return {"elastane_slots": 4, "elastane_jobs{state}": {"queued": len(self.details)}, "rounds_total": 7}


def write_log(service: FakeService, job: str, text: str, *, attempt: int = 1, worker: str = "w0") -> Path:
    """Add to a log file of a job."""
    path = service.log_path(job, attempt, worker)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
    return path
