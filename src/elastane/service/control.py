"""The control plane: one loop that hears, decides and brings about; everything it must not forget is stored first.

Each change of a job is written in one transaction, together with its entry in the event log, before the engine hears
of it.  The engine is told the whole wanted state again and again, so a crash between the two is repaired by the next
round, of this control plane or of the one after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from elastane.cluster import Grant, Node
from elastane.engines.contract import Ending, Engine, Launch, Over, Report, Running, Told, Wanted
from elastane.errors import ElastaneError
from elastane.jobs.parts import Checkpoint
from elastane.jobs.spec import Kind
from elastane.jobs.states import EDGES, Event, State
from elastane.lookahead.physics import core_share
from elastane.policies.contract import Policy
from elastane.policies.plan import Verdict
from elastane.policies.record import lowered_to_json, plain, view_to_json
from elastane.policies.registry import make_policy
from elastane.service.deciding import PATIENCE_S, Asker, Decision, ShadowPolicy
from elastane.service.layout import Layout
from elastane.service.live import LiveJob, places_of
from elastane.service.past import Past
from elastane.service.running import Outcome, after_end, after_running, overlap, retry_at_s
from elastane.service.store import Store, Transaction
from elastane.service.store.rows import JobRow
from elastane.service.views import Scene, Seen, build_view

log = logging.getLogger("elastane")

_IDLE_S = 1.0
_STORE_TRAINING_S = 2.0
"""How often what jobs report is stored; it can be read again from their own reports."""
_SHUTDOWN_S = 20.0
_REST = 4.0
"""Rest after a round, in times that it took."""
_KEEP_EVENTS, _KEEP_DECISIONS = 200_000, 5_000


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


@dataclass(slots=True)
class Rounds:
    """What is known of decisions so far."""

    count: int = 0
    last_ms: float | None = None
    problem: str = ""
    memory: object = None
    due_s: float = 0.0
    wake_s: tuple[float, ...] = field(default_factory=tuple)


class ControlPlane:
    """Active jobs in memory, all jobs in the store, workers behind the engine."""

    def __init__(
        self, settings: ControlSettings, store: Store, engine: Engine, clock: Callable[[], float] = time.time
    ) -> None:
        self.settings = settings
        self.store = store
        self.engine = engine
        self.clock = clock
        self.problems: list[str] = []
        """What people should know about how this control plane came up."""
        self.policy: Policy = self._stored_policy("policy") or make_policy(settings.policy)
        shadow = self._stored_policy("shadow")
        self.shadow = ShadowPolicy(shadow) if shadow is not None else None
        self.draining: frozenset[str] = frozenset(store.setting("draining") or ())
        self.live: dict[str, LiveJob] = {}
        self.rounds = Rounds(memory=_remembered(store.setting("memory"), self.policy))
        self.past = Past(store)
        self.changed = asyncio.Condition()
        self._asker = Asker(settings.patience_s)
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

    # Life.

    async def open(self) -> None:
        """Take up where the last control plane ended, and go on."""
        await self.take_up()
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._loop())]

    async def take_up(self) -> None:
        """Be where the last control plane ended; ``round`` goes on from there."""
        self.store.claim()
        for row in self.store.active():
            try:
                job = self.live[row.id] = LiveJob.of(row)
                job.retry_s = retry_at_s(row)
            except ElastaneError as error:
                self.problems.append(f"job {row.id} is set aside, its spec cannot be read any more: {error}")
        await self.engine.open()
        asked = self.settings
        layout = Layout(self.known_nodes(), asked.cores, asked.interval_s, asked.min_run_s)
        with self.store.transaction() as t:
            t.set_setting("layout", layout.to_json())
        self._ensure_all()
        for job in self.live.values():
            if job.holding:  # what has not left yet is nowhere in the store
                there = Counter(worker.node for worker in self.engine.processes(job.attempt))
                job.places = overlap(job.places, there)
        self._trigger = "start"

    async def close(self, *, leave_running: bool) -> None:
        """Stop deciding; jobs go on, or are saved and end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if not leave_running:
            await self._suspend_all()
        await self.engine.close(leave_running=leave_running)
        self._take(self.engine.reports())
        self._store_training(force=True)
        self.store.close()

    async def _suspend_all(self) -> None:
        """Save everything that can be saved; it goes on when a control plane takes this home up again."""
        self._take(self.engine.reports())
        with self.store.transaction() as t:
            for job in self.live.values():
                if job.row.state in (State.STAGING, State.STARTING, State.RUNNING, State.RESIZING):
                    self._suspend(t, job, "Elastane is shutting down")
        self._ensure_all()
        deadline = time.monotonic() + _SHUTDOWN_S
        while any(job.row.grant for job in self.live.values()) and time.monotonic() < deadline:
            await self.engine.changed(0.2)
            self._take(self.engine.reports())

    async def failed(self) -> None:
        """Returns (or raises) when the loop has ended, which it should not."""
        await asyncio.gather(*self._tasks)

    def poke(self, trigger: str) -> None:
        """Something happened that a decision should answer."""
        self._trigger = self._trigger or trigger
        self._wake.set()

    async def _listen(self) -> None:
        while True:
            if await self.engine.changed(_IDLE_S):
                self._wake.set()

    async def _loop(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._nap_s())
            began_s = time.monotonic()
            await self.round()
            # However much there is to do, most of the time belongs to those who ask.
            await asyncio.sleep(_REST * (time.monotonic() - began_s))

    async def round(self) -> None:
        """Hear what happened, decide if there is reason to, and bring it about."""
        self._wake.clear()
        self._take(self.engine.reports())
        self._look_at_nodes()
        now = self.clock()
        self._retry(now)
        if not self._trigger and (now >= self.rounds.due_s or any(now >= w for w in self.rounds.wake_s)):
            self._trigger = "tick"
        self.past.tell(self.live.values(), self.accelerator())
        if not self.past.complete:
            self._wake.set()  # there is more to read, and nothing to wait for
        if self._trigger:
            trigger, self._trigger = self._trigger, ""
            await self._decide(trigger)
        self._store_training()
        await self._keep_house()
        async with self.changed:
            self.changed.notify_all()

    def _nap_s(self) -> float:
        moments = [
            self.rounds.due_s,
            *self.rounds.wake_s,
            *(j.retry_s for j in self.live.values() if j.retry_s),
        ]
        return min(_IDLE_S, max(0.0, min(moments, default=0.0) - self.clock()) or 0.05)

    def _retry(self, now: float) -> None:
        for job in self.live.values():
            if 0.0 < job.retry_s <= now:
                job.retry_s = 0.0  # once: it may have to wait for room like any other
                self.poke("retry")

    async def _keep_house(self) -> None:
        if not self.store.backup_due():
            return
        try:
            await asyncio.to_thread(self.store.backup)
        except ElastaneError as error:  # a full disk, say: what is stored is still good
            log.warning("the copy of the store could not be made: %s", error)
        with self.store.transaction() as t:
            t.prune(_KEEP_EVENTS, _KEEP_DECISIONS)

    # Hearing.

    def _take(self, reports: list[Report]) -> None:
        """What the engine says; ends and starts are stored before it may forget them."""
        ended = []
        changes = [r for r in reports if isinstance(r, Running | Over)]
        share = self._share()
        for report in reports:
            job = self.live.get(report.attempt.job)
            if job is not None and job.attempt == report.attempt and isinstance(report, Told):
                self._hear(job, report, share)
        if changes:
            with self.store.transaction() as t:
                for report in changes:
                    job = self.live.get(report.attempt.job)
                    if job is not None and job.attempt == report.attempt:
                        self._change(t, job, report)
            ended = [r.attempt for r in changes if isinstance(r, Over)]
        for attempt in ended:
            self.engine.forget(attempt)
        for job_id in [i for i, job in self.live.items() if job.row.terminal]:
            del self.live[job_id]

    def _hear(self, job: LiveJob, report: Told, share: float) -> None:
        if report.number > job.row.seen:
            job.row = replace(job.row, seen=report.number)
            if job.learned.hear(report.event, share):
                self._unsaved.add(job.id)

    def _share(self) -> float:
        busy = sum(job.row.grant.workers * job.worker.gpus for job in self.live.values() if job.row.grant)
        return core_share(self.settings.cores, busy)

    def _change(self, t: Transaction, job: LiveJob, report: Report) -> None:
        if isinstance(report, Running):
            settled = job.row.state is State.RUNNING or report.workers == places_of(job.row.grant)
            # A report from before the last change does not mean that the places of that change are empty.
            job.places = dict(report.workers) if settled else overlap(job.places, report.workers)
            if job.row.state is State.STARTING:
                job.learned.start_s = max(0.0, report.at_s - job.row.last_change_s)
            outcome = after_running(job, report)
            self.poke("settled")
        else:
            assert isinstance(report, Over)
            outcome = after_end(job, report)
            job.places = {}
            self.poke("finish")
        if outcome is not None:
            self.follow(t, job, outcome)

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

    def record(self, t: Transaction, row: JobRow, before: State, event: Event, words: str) -> None:
        """A step of a job's life, for the event log."""
        after = EDGES[before].get(event, before)
        body = {"from": before.value, "to": after.value, "cause": event.name.lower(), "detail": words}
        t.append_event("state", row.id, {**body, "attempt": row.attempt, "workers": places_of(row.grant)})

    def _store_training(self, *, force: bool = False) -> None:
        now = self.clock()
        if not self._unsaved or (not force and 0.0 <= now - self._saved_s < _STORE_TRAINING_S):
            return
        with self.store.transaction() as t:
            for job_id in sorted(self._unsaved):
                job = self.live.get(job_id)
                if job is not None:
                    job.row = replace(
                        job.row, training=job.learned.training_json(), profile=job.learned.profile_json()
                    )
                    t.save_training(job.row)
        self._unsaved.clear()
        self._saved_s = now

    def _look_at_nodes(self) -> None:
        nodes = self.engine.nodes()
        if nodes.keys() != self._nodes.keys():
            with self.store.transaction() as t:
                for name in sorted(nodes.keys() - self._nodes.keys()):
                    t.append_event("node", None, {"node": name, "state": "up"})
                for name in sorted(self._nodes.keys() - nodes.keys()):
                    t.append_event("node", None, {"node": name, "state": "lost"})
            for job in self.live.values():
                job.places = {node: count for node, count in job.places.items() if node in nodes}
            self.poke("node")
        self._nodes = dict(nodes)

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

    # Deciding.

    def scene(self, memory: object) -> Scene:
        """What a decision would be made from now, besides the jobs."""
        return Scene(
            now_s=self.clock(),
            nodes=self.nodes(),
            quotas={quota.tenant: quota for quota in self.store.quotas()},
            memory=memory,
            seed=self.settings.seed + self.rounds.count,
            finished_service=self.store.finished_service(),
            min_run_s=self.settings.min_run_s,
        )

    def _seen_by(self, policy: Policy, memory: object, trigger: str) -> Seen:
        return build_view(self.scene(memory), self.live.values(), trigger, policy)

    async def _decide(self, trigger: str) -> None:
        now = self.clock()
        self.rounds.due_s = now + (self.settings.interval_s or self.policy.needs.period_s or 30.0)
        self.rounds.wake_s = ()
        if not self.live:
            return
        policy, shadow = self.policy, self.shadow
        seen = self._seen_by(policy, self.rounds.memory, trigger)
        # The same situation for both: the one before anything is done about it.
        other = None if shadow is None else self._seen_by(shadow.policy, shadow.memory, trigger)
        answer = await self._asker.ask(policy, seen.view)
        if self.policy is not policy:
            return  # its memory would mean nothing to the other, which is asked next
        if isinstance(answer, str):
            self.rounds.problem = answer
            log.warning("%s", answer)
        else:
            self._adopt(answer, seen)
        self._ensure_all()
        if shadow is not None and other is not None and isinstance(answer, Decision):
            shadow.compare(await self._asker.ask(shadow.policy, other.view), answer.lowered.grants)

    def _adopt(self, answer: Decision, seen: Seen) -> None:
        rounds = self.rounds
        kept = plain({"policy": self.policy.label(), "memory": answer.plan.memory})
        remembers = kept["memory"] != rounds.memory
        rounds.count += 1
        rounds.last_ms, rounds.problem, rounds.memory = answer.took_ms, "", kept["memory"]
        rounds.wake_s = tuple(answer.plan.wake_s)
        reasons = {**answer.lowered.waiting, **seen.withheld}
        for job in self.live.values():
            job.waiting = reasons.get(job.id, "") if job.row.grant is None else ""
        with self.store.transaction() as t:
            self._turn_away(t, answer)
            changed = self._apply(t, answer.lowered.grants, seen.withheld)
            if remembers:
                t.set_setting("memory", kept)
            if changed:
                self._record_decision(t, answer, seen, changed)

    def _record_decision(self, t: Transaction, answer: Decision, seen: Seen, changed: list[str]) -> None:
        """So that it can be made again (``elastane replay``)."""
        label, view = self.policy.label(), seen.view
        plan = lowered_to_json(answer.lowered)
        number = t.add_decision(policy=label, view=view_to_json(view), plan=plan, took_ms=answer.took_ms)
        grants = {job: places_of(grant) for job, grant in answer.lowered.grants.items()}
        body = {
            "number": number,
            "trigger": view.trigger,
            "policy": label,
            "grants": grants,
            "changed": changed,
        }
        t.append_event("decision", None, {**body, "took_ms": round(answer.took_ms, 3)})

    def _turn_away(self, t: Transaction, answer: Decision) -> None:
        for job_id, admission in answer.plan.admissions.items():
            job = self.live.get(job_id)
            if admission.verdict is Verdict.REJECT and job is not None and job.row.state is State.QUEUED:
                row = replace(
                    job.moved(Event.REJECT, self.clock()), reason=admission.reason, ended_s=self.clock()
                )
                self.follow(t, job, Outcome(row, ((Event.REJECT, admission.reason),)))

    def _apply(self, t: Transaction, grants: Mapping[str, Grant], withheld: Mapping[str, str]) -> list[str]:
        """Take what has to be given up first; what others have not left yet is given later."""
        changed = []
        # Much may have been asked for while the policy was thinking.
        movable = [j for j in self.live.values() if j.movable]
        for job in movable:
            if job.row.grant is not None and job.id not in grants:
                gone = sorted(places_of(job.row.grant).keys() - self._nodes.keys())
                if gone and len(gone) == len(places_of(job.row.grant)):
                    self._lose(t, job, f"{', '.join(gone)} was lost")
                else:
                    why = f"{', '.join(gone)} was lost" if gone else "another job needs its place"
                    self._suspend(t, job, withheld.get(job.id, why))
                changed.append(job.id)
        for job in sorted(movable, key=lambda j: _growth(j, grants.get(j.id))):
            wanted = grants.get(job.id)
            if wanted is None or (job.row.grant is not None and wanted.same_place(job.row.grant)):
                continue
            if self._give(t, job, wanted):
                changed.append(job.id)
        return changed

    def _suspend(self, t: Transaction, job: LiveJob, why: str) -> None:
        if job.row.state is State.LOST:
            return
        row = replace(job.moved(Event.SUSPEND, self.clock()), ending="suspend")
        self.follow(t, job, Outcome(row, ((Event.SUSPEND, why),)))

    def _lose(self, t: Transaction, job: LiveJob, why: str) -> None:
        """None of its workers is left to save anything; what is left of the attempt is ended."""
        if job.row.state is not State.LOST:
            row = replace(job.moved(Event.LOSE, self.clock()), ending="suspend")
            self.follow(t, job, Outcome(row, ((Event.LOSE, why),)))

    def _give(self, t: Transaction, job: LiveJob, wanted: Grant) -> bool:
        free = self._free(besides=job.id)
        places = places_of(wanted)
        if any(job.slots(count) > free.get(node, 0) for node, count in places.items()):
            job.waiting = job.waiting or "its place is being freed by others"
            return False
        now = self.clock()
        if job.row.grant is None:
            row = replace(
                job.moved(Event.START, now),
                grant=wanted,
                attempt=job.row.attempt + 1,
                first_start_s=job.row.first_start_s or now,
                reason="",
            )
            event = Event.START
            job.since_s = now
        elif job.row.state is State.RUNNING and places == job.places:
            # It lost a node and has gone on without: there is nothing left to do for the engine.
            row, event = replace(job.accounted(now), grant=wanted), Event.RESIZED
        elif job.row.state is State.RUNNING:
            row, event = replace(job.moved(Event.RESIZE, now), grant=wanted), Event.RESIZE
        else:
            row, event = replace(job.accounted(now), grant=wanted), Event.RESIZE
        words = ", ".join(f"{count} on {node}" for node, count in places.items())
        self.follow(t, job, Outcome(row, ((event, words),)))
        job.places = overlap(job.places, places)
        job.waiting = ""
        return True

    def _free(self, besides: str) -> dict[str, int]:
        """Slots by node that nobody else may still be using."""
        free = {name: node.gpus for name, node in self._nodes.items()}
        for job in self.live.values():
            if job.id == besides or not (job.places or job.row.grant):
                continue
            for node, count in overlap(job.places, places_of(job.row.grant)).items():
                if node in free:
                    free[node] -= job.slots(count)
        return free

    # Bringing about.

    def _ensure_all(self) -> None:
        for job in self.live.values():
            self.ensure(job)

    def ensure(self, job: LiveJob) -> None:
        """Tell the engine what is wanted of a job that has processes."""
        if job.row.attempt and job.holding:
            self.engine.ensure(self._wanted(job))

    def _wanted(self, job: LiveJob) -> Wanted:
        row, spec = job.row, job.spec
        folder = self.settings.home / "jobs" / row.id
        launch = Launch(
            attempt=job.attempt,
            name=row.name,
            command=tuple(spec.command),
            directory=row.directory,
            folder=folder / f"attempt-{row.attempt}",
            run=folder / "run",
            kind=row.kind,
            guessed=spec.kind is Kind.AUTO,
            environment=dict(spec.env),
            most_workers=spec.max_workers,
            worker_slots=job.worker.gpus,
            # Unless its owner wants another, the training library finds an interval from what saving costs.
            checkpoint_s=spec.checkpoint.every if spec.checkpoint.every != Checkpoint().every else None,
            tenant=row.tenant,
        )
        if row.ending:
            ending = Ending.SUSPEND if row.ending == "suspend" else Ending.CANCEL
            return Wanted(launch, None, ending, row.reason, row.seen)
        return Wanted(launch, row.grant, seen=row.seen)


def _growth(job: LiveJob, wanted: Grant | None) -> int:
    """Who gives something up comes first."""
    return (wanted.workers if wanted else 0) - (job.row.grant.workers if job.row.grant else 0)


def _remembered(kept: Mapping[str, object] | None, policy: Policy) -> object:
    """What the policy's last plan asked to keep, if it was this policy's."""
    return kept["memory"] if kept and kept["policy"] == policy.label() else None
