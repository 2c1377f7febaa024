"""What a control plane holds: active jobs in memory, all jobs in the store, workers behind the engine.

Each change of a job is written in one transaction, together with its entry in the event log, before the engine hears
of it.  The engine is told the whole wanted state again and again, so a crash between the two is repaired by the next
round, of this control plane or of the one after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from elastane.cluster import Node
from elastane.engines.contract import Ending, Engine, Launch, Wanted
from elastane.engines.local.paths import Layout
from elastane.errors import ElastaneError
from elastane.jobs.kinds import Kind
from elastane.jobs.parts import Checkpoint
from elastane.jobs.states import EDGES, Event, State
from elastane.policies.contract import Policy
from elastane.policies.registry import make_policy
from elastane.service.control.active_job import LiveJob, places_of
from elastane.service.control.crash_suspects import Suspects
from elastane.service.control.policy_runner import PATIENCE_S, PolicyRunner, ShadowPolicy
from elastane.service.control.transitions import Outcome
from elastane.service.history import Past
from elastane.service.limits import Limits
from elastane.service.store import Store, Transaction
from elastane.service.store.rows import JobRow


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """How a control plane works."""

    home: Path
    policy: str = "elastane"
    interval_s: float | None = None
    """Between rounds of re-dividing; None leaves it to the policy."""
    seed: int = 0
    patience_s: float = PATIENCE_S
    """How long a policy may think."""
    min_run_s: float = 60.0
    """A job that was just started is not suspended for another before this."""
    cores: int | None = None
    """Cores that all slots share; None where slots are devices of their own."""
    pending_per_tenant: int = Limits().pending_per_tenant


@dataclass(slots=True)
class Rounds:
    """What is known of decisions so far."""

    count: int = 0
    last_ms: float | None = None
    problem: str = ""
    memory: object = None
    due_s: float = 0.0
    wake_s: tuple[float, ...] = field(default_factory=tuple)


class Holding:
    """The state of a control plane, and how it is changed; the rest of it is built on this."""

    def __init__(
        self, settings: ControlSettings, store: Store, engine: Engine, clock: Callable[[], float] = time.time
    ) -> None:
        self.settings = settings
        self.store = store
        self.engine = engine
        self.clock = clock
        self.problems: list[str] = []
        """What people should know about how this control plane came up."""
        self.unread: dict[str, str] = {}
        """Active jobs in the store that are not held here, and why."""
        self.policy: Policy = self._stored_policy("policy") or make_policy(settings.policy)
        shadow = self._stored_policy("shadow")
        self.shadow = ShadowPolicy(shadow) if shadow is not None else None
        self.draining: frozenset[str] = frozenset(store.setting("draining") or ())
        self.live: dict[str, LiveJob] = {}
        self.rounds = Rounds(memory=_remembered(store.setting("memory"), self.policy))
        self.past = Past(store)
        self.changed = asyncio.Condition()
        self.settled = asyncio.Event()
        """Set once the first round was made."""
        self.suspects = Suspects(settings.home)
        self._runner = PolicyRunner(settings.patience_s)
        self._trigger = ""
        self._wake = asyncio.Event()
        self._unsaved: set[str] = set()
        self._saved_s = 0.0
        self._nodes: Mapping[str, Node] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def _stored_policy(self, setting: str) -> Policy | None:
        """The policy that was chosen while the system ran, if it still exists."""
        written = self.store.setting(setting)
        try:
            return make_policy(written) if written else None
        except ElastaneError as error:
            self.problems.append(f"the {setting} that was chosen cannot be used any more: {error}")
            return None

    def poke(self, trigger: str) -> None:
        """Something happened that a decision should answer."""
        self._trigger = self._trigger or trigger
        self._wake.set()

    def follow(self, t: Transaction, job: LiveJob, outcome: Outcome) -> None:
        """Store what becomes of a job, and hold it."""
        before = job.row.state
        row = replace(
            outcome.row,
            seen=max(outcome.row.seen, job.row.seen),
            training=job.learned.training_json(),
            profile=job.learned.profile_json(),
        )
        t.save_job(row)
        for event, words in outcome.steps:
            self.record(t, row, before, event, words)
            before = EDGES[before].get(event, before)
        job.row = row
        if row.terminal:
            self.past.keep(t, job, self.accelerator())
        if outcome.retry_in_s:
            job.retry_s = self.clock() + outcome.retry_in_s

    @contextlib.contextmanager
    def changing(self) -> Iterator[Transaction]:
        """A transaction; what is not stored has not happened to the jobs in memory either."""
        before = [(job, job.row, job.places, job.since_s, job.retry_s) for job in self.live.values()]
        try:
            with self.store.transaction() as t:
                yield t
        except BaseException:
            for job, row, places, since_s, retry_s in before:
                job.row, job.places, job.since_s, job.retry_s = row, places, since_s, retry_s
            raise

    def record(self, t: Transaction, row: JobRow, before: State, event: Event, words: str) -> None:
        """A step of a job's life, for the event log."""
        after = EDGES[before].get(event, before)
        body = {"from": before.value, "to": after.value, "cause": event.name.lower(), "detail": words}
        t.append_event("state", row.id, {**body, "attempt": row.attempt, "workers": places_of(row.grant)})

    def known_nodes(self) -> Mapping[str, Node]:
        """All nodes there should be, whether they answer or not."""
        return self.engine.known_nodes()

    def accelerator(self) -> str:
        """What nodes have here."""
        return next((node.gpu_type for node in self.known_nodes().values()), "cpu")

    def nodes(self) -> dict[str, Node]:
        """Those that answer; draining ones are marked."""
        return {
            name: replace(node, draining=name in self.draining) for name, node in self.engine.nodes().items()
        }

    def ensure(self, job: LiveJob) -> None:
        """Tell the engine what is wanted of a job that has processes."""
        if job.row.attempt and job.holding:
            self.engine.ensure(self._wanted(job))

    def _ensure_all(self) -> None:
        for job in self.live.values():
            self.ensure(job)

    def _wanted(self, job: LiveJob) -> Wanted:
        row, spec = job.row, job.spec
        layout = Layout(self.settings.home)
        launch = Launch(
            attempt=job.attempt,
            name=row.name,
            command=tuple(spec.command),
            directory=row.directory,
            folder=layout.attempt(job.attempt),
            run=layout.run(row.id),
            kind=row.kind,
            guessed=spec.kind is Kind.AUTO,
            environment=spec.variables,
            python=spec.python.path if spec.python else "",
            most_workers=spec.max_workers,
            worker_slots=job.worker.gpus,
            worker_memory_gb=job.worker.memory_gb,
            # Unless its owner wants another, the training library finds an interval from what saving costs.
            checkpoint_s=spec.checkpoint.every if spec.checkpoint.every != Checkpoint().every else None,
            tenant=row.tenant,
        )
        if row.ending:
            ending = Ending.SUSPEND if row.ending == "suspend" else Ending.CANCEL
            return Wanted(launch, None, ending, row.reason, row.seen)
        return Wanted(launch, row.grant, seen=row.seen)


def _remembered(kept: Mapping[str, object] | None, policy: Policy) -> object:
    """What the policy's last plan asked to keep, if it was this policy's."""
    return kept["memory"] if kept and kept["policy"] == policy.label() else None
