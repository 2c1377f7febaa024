"""A server in memory: what the verbs ask for, answered from plain fields, with every call written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from elastane.client.client import Client, LogPart
from elastane.client.errors import NotFoundError, RequestRefused
from elastane.errors import ElastaneError
from elastane.service.messages import (
    Ahead,
    CurvePoint,
    Eta,
    EventRecord,
    Instead,
    JobDetail,
    JobSummary,
    LogFile,
    NewToken,
    NodeInfo,
    PackagedCode,
    PackageInfo,
    PolicyInfo,
    PoolInfo,
    Problem,
    QuotaInfo,
    Role,
    ServerInfo,
    SharedCode,
    Step,
    Submitted,
    TokenInfo,
    Training,
    UserInfo,
    Why,
    WorkerInfo,
)
from elastane.service.protocol import Which

NOW_S = 1_700_000_000.0
"""The moment at which all tests take place."""


POOL = PoolInfo(
    name="spot",
    accelerator="a100",
    slots=8,
    now=1,
    wanted=2,
    least=0,
    most=4,
    idle_s=300.0,
    price_per_hour=24.5,
    budget_per_hour=50.0,
)


def running() -> JobDetail:
    """A job in the middle of its training."""
    return JobDetail(
        id="j1",
        name="digits",
        tenant="vision",
        owner="ada",
        state="running",
        kind="adaptive",
        kind_reason="its process called elastane.train",
        workers=4,
        min_workers=1,
        max_workers=8,
        nodes={"n1": 2, "n0": 2},
        submitted_s=NOW_S - 600,
        started_s=NOW_S - 590,
        attempt=1,
        progress=0.62,
        batch=512,
        goodput=1234.5,
        eta=Eta(low_s=NOW_S + 300, mid_s=NOW_S + 400, high_s=NOW_S + 540, basis="measured speed"),
        spec={"command": ["python", "train.py", "--lr", "0.1"]},
        directory="/home/ada",
        training=Training(
            at_s=NOW_S - 2,
            step=4321,
            epoch=6,
            epochs=10,
            loss=0.21345,
            metrics={"accuracy": 0.91},
            batch=512,
            per_worker=64,
            accumulation=1,
            lr_factor=2.0,
            samples_per_s=1500.0,
            efficiency=0.823,
            goodput=1234.5,
            resizes=2,
            pauses_s=0.35,
            workers_lost=1,
            redone_steps=1,
        ),
        curve=[
            CurvePoint(workers=1, speedup=1.0, measured=True),
            CurvePoint(workers=2, speedup=1.8, measured=True),
            CurvePoint(workers=4, speedup=3.0, measured=True, chosen=True),
            CurvePoint(workers=8, speedup=4.0),
        ],
        life=[
            Step(at_s=NOW_S - 600, source="submitted", target="queued", cause="admit"),
            Step(at_s=NOW_S - 590, source="queued", target="starting", cause="start", detail="2 workers"),
            Step(at_s=NOW_S - 588, source="starting", target="running", cause="report the start of"),
        ],
        processes=[
            WorkerInfo(name="w0", node="n0", pid=4711, doing="training"),
            WorkerInfo(name="w1", node="n1"),
        ],
    )


def queued() -> JobDetail:
    """A job that waits."""
    return JobDetail(
        id="j2",
        name="big",
        tenant="vision",
        owner="bob",
        state="queued",
        kind="command",
        min_workers=8,
        max_workers=8,
        submitted_s=NOW_S - 90,
        spec={"command": "python big.py"},
        directory="/home/bob",
        reason="needs 8 slots, 4 are free",
    )


def ended(state: str = "succeeded", id: str = "j3", reason: str = "finished") -> JobDetail:
    """A job that is over."""
    return JobDetail(
        id=id,
        name="old",
        tenant="vision",
        owner="ada",
        state=state,
        kind="command",
        min_workers=1,
        max_workers=1,
        submitted_s=NOW_S - 7200,
        started_s=NOW_S - 7100,
        ended_s=NOW_S - 3600,
        attempt=2,
        code=0 if state == "succeeded" else 1,
        spec={"command": ["./old"]},
        directory="/home/ada",
        reason=reason,
    )


def waiting_for(job: JobDetail) -> Why:
    """Why the second job waits."""
    return Why(
        id=job.id,
        state=job.state,
        reason=job.reason,
        numbers={"needs": 8, "free_slots": 4},
        ahead=[
            Ahead(
                id=f"j{number}",
                name="digits",
                owner="ada",
                workers=number,
                state="running",
                eta=running().eta if number == 1 else None,
            )
            for number in range(1, 6)
        ],
        advice=["ask for 4 workers instead of 8"],
        instead=[
            Instead(change="4 workers", starts="it would start now", helps=True),
            Instead(change="priority 5", starts="it would still wait", helps=False),
        ],
    )


def not_found(id: str) -> ElastaneError:
    """As the client says it."""
    return NotFoundError(Problem(error=f"there is no job {id!r}", kind="not found"))


def conflict(error: str) -> ElastaneError:
    """As the client says it."""
    return RequestRefused(Problem(error=error, kind="conflict"))


@dataclass
class Fake(Client):
    """A ``Client`` without a server: it overrides every verb that the command line uses."""

    all_jobs: dict[str, JobDetail] = field(default_factory=dict)
    later: dict[str, list[JobDetail]] = field(default_factory=dict)
    """What a job becomes with every look at it."""
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    refusal: ElastaneError | None = None
    log_files: dict[tuple[int, str], str] = field(default_factory=dict)
    leader: str = "w0"
    part_bytes: int = 1_000_000
    record: list[EventRecord] = field(default_factory=list)
    quota_list: list[QuotaInfo] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    queues: list[list[JobSummary]] = field(default_factory=list)
    """What the queue is with every look at it, before it is simply all jobs."""
    shadow: str | None = None
    node_list: list[NodeInfo] = field(default_factory=list)
    """Nodes, where a test wants others."""
    has_pools: bool = True
    elsewhere: int = 0
    packages: dict[str, bytes] = field(default_factory=dict)
    codes: list[SharedCode | PackagedCode | None] = field(default_factory=list)
    """What jobs were submitted with."""

    def note(self, *call: Any) -> None:
        self.asked.append(call)
        if self.refusal is not None:
            raise self.refusal

    def info(self) -> ServerInfo:
        self.note("info")
        return ServerInfo(
            version="0.1",
            home="/srv/elastane",
            started_s=NOW_S - 7200,
            policy="elastane",
            slots=4,
            nodes=2,
            jobs={"running": 1, "queued": 1, "failed": 0},
            warnings=["4 slots on 2 cores"],
            elsewhere=self.elsewhere,
        )

    def whoami(self) -> UserInfo:
        self.note("whoami")
        return UserInfo(name="ada", role="user", tenant="vision")

    def submit(
        self,
        spec: Mapping[str, Any],
        *,
        directory: str | Path | None = None,
        key: str | None = None,
        code: SharedCode | PackagedCode | None = None,
    ) -> Submitted:
        self.note("submit", dict(spec), directory, key)
        self.codes.append(code)
        return Submitted(
            id="j7", name=spec.get("name", "train"), repeated=key == "again", warnings=self.warnings
        )

    def has_package(self, digest: str) -> bool:
        self.note("has_package")
        return digest in self.packages

    def send_package(
        self, digest: str, file: IO[bytes], sent: Callable[[int, int], object] | None = None
    ) -> PackageInfo:
        self.note("send_package")
        file.seek(0)
        self.packages[digest] = file.read()
        if sent is not None:
            sent(1, 1)
        return PackageInfo(digest=digest, bytes=len(self.packages[digest]))

    def jobs(
        self, which: Which = "active", *, owner: str | None = None, tenant: str | None = None, limit: int = 1000
    ) -> list[JobSummary]:
        self.note("jobs", which, owner, tenant, limit)
        if self.queues:
            return self.queues.pop(0)
        wanted = {"active": (False,), "ended": (True,), "all": (False, True)}[which]
        return [job for job in self.all_jobs.values() if (job.ended_s is not None) in wanted]

    def job(self, job: str) -> JobDetail:
        self.note("job", job)
        if self.later.get(job):
            self.all_jobs[job] = self.later[job].pop(0)
        if job not in self.all_jobs:
            raise not_found(job)
        return self.all_jobs[job]

    def why(self, job: str, *, instead: bool = False) -> Why:
        self.note("why", job, instead)
        answer = waiting_for(self.all_jobs[job])
        return answer if instead else answer.model_copy(update={"instead": []})

    def _change(self, job: str, **fields: Any) -> JobSummary:
        if job not in self.all_jobs:
            raise not_found(job)
        if self.all_jobs[job].ended_s is not None:
            raise conflict(f"{job} has already {self.all_jobs[job].state}")
        self.all_jobs[job] = self.all_jobs[job].model_copy(update=fields)
        return self.all_jobs[job]

    def cancel(self, job: str) -> JobSummary:
        self.note("cancel", job)
        return self._change(job, state="stopping")

    def suspend(self, job: str) -> JobSummary:
        self.note("suspend", job)
        return self._change(job, state="suspending", held=True)

    def resume(self, job: str) -> JobSummary:
        self.note("resume", job)
        return self._change(job, held=False)

    def scale(self, job: str, workers: int | None) -> JobSummary:
        self.note("scale", job, workers)
        return self._change(job, pinned=workers)

    def move(self, job: str, node: str) -> JobSummary:
        self.note("move", job, node)
        return self._change(job)

    def logs(self, job: str) -> list[LogFile]:
        self.note("logs", job)
        return [
            LogFile(attempt=attempt, worker=worker, bytes=len(text.encode()), leader=worker == self.leader)
            for (attempt, worker), text in self.log_files.items()
        ]

    def log(self, job: str, attempt: int, worker: str, *, offset: int = 0, limit: int = 1_048_576) -> LogPart:
        self.note("log", job, attempt, worker, offset)
        part = self.log_files[attempt, worker].encode()[offset : offset + min(limit, self.part_bytes)]
        return LogPart(part, offset + len(part))

    def follow_logs(self, job: str, worker: str | None = None) -> Iterator[str]:
        self.note("follow_logs", job, worker)
        yield from self.log_files.values()

    def nodes(self) -> list[NodeInfo]:
        self.note("nodes")
        return self.node_list or [
            NodeInfo(id="n0", slots=2, used=2, accelerator="cpu", state="up", jobs={"j1": 2}),
            NodeInfo(id="n1", slots=2, used=0, accelerator="cpu", state="draining"),
        ]

    def pools(self) -> list[PoolInfo]:
        self.note("pools")
        return [POOL] if self.has_pools else []

    def set_pool(
        self,
        pool: str,
        *,
        least: int | None = None,
        most: int | None = None,
        idle_s: float | None = None,
        budget_per_hour: float | None = None,
    ) -> PoolInfo:
        given = {"least": least, "most": most, "idle_s": idle_s, "budget_per_hour": budget_per_hour}
        said = {name: value for name, value in given.items() if value is not None}
        self.note("set_pool", pool, said)
        return POOL.model_copy(update={"name": pool, **said})

    def drain(self, node: str) -> NodeInfo:
        self.note("drain", node)
        return self.nodes()[0].model_copy(update={"id": node, "state": "draining"})

    def undrain(self, node: str) -> NodeInfo:
        self.note("undrain", node)
        return self.nodes()[0].model_copy(update={"id": node})

    def policy(self) -> PolicyInfo:
        self.note("policy")
        return PolicyInfo(
            policy="elastane", title="Elastane", period_s=30, decisions=12, last_ms=3.21, shadow=self.shadow
        )

    def set_policy(self, policy: str) -> PolicyInfo:
        self.note("set_policy", policy)
        return PolicyInfo(policy=policy)

    def set_shadow(self, policy: str | None) -> PolicyInfo:
        self.note("set_shadow", policy)
        return PolicyInfo(policy="elastane", shadow=policy, shadow_differs=3, shadow_decisions=10)

    def quotas(self) -> list[QuotaInfo]:
        self.note("quotas")
        return self.quota_list

    def set_quota(
        self, tenant: str, slots: int | None, *, weight: float | None = None, lends: bool | None = None
    ) -> QuotaInfo:
        self.note("set_quota", tenant, slots, weight, lends)
        return QuotaInfo(tenant=tenant, slots=slots, weight=weight or 1.0, lends=lends is not False)

    def users(self) -> list[UserInfo]:
        self.note("users")
        return [UserInfo(name="ada", role="admin", tenant="vision")]

    def add_user(self, name: str, role: Role = "user", tenant: str = "default") -> UserInfo:
        self.note("add_user", name, role, tenant)
        return UserInfo(name=name, role=role, tenant=tenant)

    def remove_user(self, name: str) -> None:
        self.note("remove_user", name)

    def tokens(self, user: str | None = None) -> list[TokenInfo]:
        self.note("tokens", user)
        kept = TokenInfo(id="t1", user="ada", label="laptop", created_s=NOW_S - 86400 * 3)
        gone = kept.model_copy(update={"id": "t2", "revoked": True})
        soon = kept.model_copy(update={"id": "t3", "expires_s": NOW_S + 86400 * 30})
        return [kept, gone, soon]

    def new_token(
        self, user: str | None = None, *, label: str = "", lifetime_s: float | None = None
    ) -> NewToken:
        self.note("new_token", user, label, lifetime_s)
        return NewToken(id="t9", user=user or "ada", label=label, created_s=NOW_S, token="secret")

    def revoke_token(self, token_id: str) -> None:
        self.note("revoke_token", token_id)

    def events(self, after: int = 0, *, follow: bool = True) -> Iterator[EventRecord]:
        self.note("events", after, follow)
        yield from (event for event in self.record if event.seq > after)


def cluster() -> Fake:
    """A running job, one that waits and one that has ended."""
    jobs = (running(), queued(), ended())
    return Fake({job.id: job for job in jobs})
