"""The control plane: one loop that hears, decides and brings about; everything it must not forget is stored first.

It is made of parts that know each other only through their constructors: a ``Ledger`` (jobs and the store), a
``ReportIngest`` (what the engine says), a ``DecisionRound`` (what the policy says) with its ``PolicyRunner`` and
``GrantApplier``, an ``EngineDriver`` (what the engine is told).  What is here is their life: how the loop takes up
where the last one ended, goes round, and leaves.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from elastane.engines.contract import Engine
from elastane.errors import ElastaneError
from elastane.jobs.states import State
from elastane.policies.contract import Policy
from elastane.policies.registry import make_policy
from elastane.service.cluster_record import Layout
from elastane.service.control.active_job import LiveJob, saves_on_head
from elastane.service.control.apply import GrantApplier
from elastane.service.control.cluster_state import ClusterState
from elastane.service.control.containment import Containment
from elastane.service.control.crash_suspects import Suspects
from elastane.service.control.engine_driver import EngineDriver
from elastane.service.control.facts import AdjustedView
from elastane.service.control.first_round import FirstRound
from elastane.service.control.housekeeping import Housekeeping
from elastane.service.control.ingest import ReportIngest
from elastane.service.control.ledger import Ledger
from elastane.service.control.policy_runner import PolicyRunner, ShadowPolicy
from elastane.service.control.pool_scaler import PoolScaler
from elastane.service.control.recovery import Recovery
from elastane.service.control.round import DecisionRound, Rounds
from elastane.service.control.settings import ControlSettings
from elastane.service.control.shutdown_report import left_behind
from elastane.service.control.wakeup import Wakeup
from elastane.service.history import JobHistory
from elastane.service.packages import Packages
from elastane.service.store import StaleControlPlane, Store, StoreError, Transaction
from elastane.service.store.rows import JobRow

__all__ = ["ControlPlane", "ControlSettings", "Rounds"]

log = logging.getLogger("elastane")

_IDLE_S = 1.0
_AGAIN_S = 1.0
"""Rest after a round that failed."""
_SHUTDOWN_S = 20.0
_REST = 4.0
"""Rest after a round, in times that it took."""
_SAVED_AT_SHUTDOWN = (State.STARTING, State.RUNNING, State.RESIZING)


class ControlPlane:
    """Active jobs in memory, all jobs in the store, workers behind the engine."""

    def __init__(
        self, settings: ControlSettings, store: Store, engine: Engine, clock: Callable[[], float] = time.time
    ) -> None:
        self.settings, self.store, self.engine, self.clock = settings, store, engine, clock
        policy, no_policy = _stored_policy(store, "policy")
        shadow, no_shadow = _stored_policy(store, "shadow")
        self.wakeup = Wakeup()
        self.cluster = cluster = ClusterState(
            engine, store, clock, settings.forget_after_s, lambda: any(map(saves_on_head, ledger.live.values()))
        )
        self.past = JobHistory(store)
        self.ledger = ledger = Ledger(store, self.past, cluster.accelerator, clock)
        self.suspects = suspects = Suspects(settings.home)
        self.driver = driver = EngineDriver(engine, ledger, settings.home)
        containment = Containment(ledger, driver, suspects)
        self.ingest = ReportIngest(ledger, engine, cluster, containment, suspects, self.wakeup, clock)
        self.applier = GrantApplier(ledger, cluster, clock)
        self.decisions = DecisionRound(
            settings,
            ledger,
            cluster,
            PolicyRunner(settings.patience_s),
            self.applier,
            driver,
            containment,
            clock,
            policy or make_policy(settings.policy),
            ShadowPolicy(shadow) if shadow is not None else None,
        )
        self.scaler = PoolScaler(ledger, engine, cluster, self.wakeup, lambda: self.decisions.unplaced, clock)
        self.changed = asyncio.Condition()
        """Notified after every round."""
        self._first = FirstRound()
        self._recovery = Recovery(ledger, containment, suspects, clock)
        self._unusable = [problem for problem in (no_policy, no_shadow) if problem]
        self.packages = Packages(settings.home, store)
        self._housekeeping = Housekeeping(store, clock, self.packages)
        self._latest_s = 0.0
        self._tasks: list[asyncio.Task[None]] = []

    # What others want of its parts.

    @property
    def live(self) -> Mapping[str, LiveJob]:
        """The ledger's jobs by id: those that have not ended."""
        return self.ledger.live

    @property
    def unread(self) -> Mapping[str, str]:
        """Active jobs in the store that are not held here, and why."""
        return self.ledger.unread

    @property
    def problems(self) -> list[str]:
        """What people should know about how this control plane came up."""
        return [*self._unusable, *self._recovery.problems]

    @property
    def policy(self) -> Policy:
        """The policy that decides now."""
        return self.decisions.policy

    @property
    def rounds(self) -> Rounds:
        """What is known of decisions so far."""
        return self.decisions.rounds

    def poke(self, trigger: str) -> None:
        """Something happened that a decision should answer."""
        self.wakeup.poke(trigger)

    def release(self, row: JobRow) -> None:
        """Look again at a job that was set aside, at its owner's place in the queue and with what it runs."""
        self._recovery.release(row)
        job = self.live.get(row.id)
        if job is not None:
            self.driver.ensure(job)
            self._recovery.find_workers(self.engine)

    def seen_by(self, policy: Policy, memory: object, trigger: str) -> AdjustedView:
        """What a policy with this memory would see if it were asked now."""
        return self.decisions.seen_by(policy, memory, trigger)

    # Its life.

    async def open(self) -> None:
        """Take up where the last control plane ended, and go on."""
        await self.take_up()
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._loop())]

    async def take_up(self) -> None:
        """Be where the last control plane ended; ``round`` goes on from there."""
        self.store.claim()
        self._recovery.take_up_jobs()
        await self.engine.open()
        with self.store.transaction() as t:
            self._record_cluster(t)
        self._unusable += await self.packages.take_up()
        self._recovery.judge_suspects(self.cluster.types())
        self.driver.ensure_all()
        self._recovery.find_workers(self.engine)
        self.wakeup.poke("start")

    def _record_cluster(self, t: Transaction) -> None:
        """Store what jobs run on, so that a simulation can repeat them."""
        asked, cluster = self.settings, self.cluster
        layout = Layout(cluster.known(), cluster.machines(), asked.interval_s, asked.min_run_s)
        t.settings.put("layout", layout.to_json())

    async def close(self, *, leave_running: bool) -> str:
        """Stop deciding; jobs go on, or are saved and end.  Returns what became of them, in words."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        told = [] if leave_running else await self._suspend_all()
        await self.engine.close(leave_running=leave_running)
        try:
            self.ingest.take(self.engine.reports())
            self.ingest.store_training(force=True)
        except StoreError as error:  # jobs keep their own reports: the next control plane hears them again
            log.warning("%s", error)
        self.store.close()
        return "jobs train on" if leave_running else left_behind(job for job in told if job.id in self.live)

    async def _suspend_all(self) -> list[LiveJob]:
        """Save everything that can be saved; it goes on when a control plane takes this home up again."""
        self.ingest.take(self.engine.reports())
        told = [job for job in self.live.values() if job.row.grant is not None]
        if not told:
            return told
        with self.store.transaction() as t:
            for job in self.live.values():
                if job.row.state in _SAVED_AT_SHUTDOWN:
                    self.applier.suspend(t, job, "Elastane is shutting down")
        self.driver.ensure_all()
        deadline = time.monotonic() + _SHUTDOWN_S
        while any(job.row.grant for job in self.live.values()) and time.monotonic() < deadline:
            await self.engine.changed(0.2)
            self.ingest.take(self.engine.reports())
        return told

    async def failed(self) -> None:
        """Returns (or raises) when the loop has ended, which it should not."""
        await asyncio.gather(*self._tasks)

    async def first_round(self) -> None:
        """Returns when one has been made; raises if none can be made."""
        await self._first.wait(self._tasks)

    @property
    def has_work(self) -> bool:
        """Whether a job has, or may have, processes."""
        return any(job.holding for job in self.live.values()) or bool(self.unread)

    # Its loop.

    async def _listen(self) -> None:
        while True:
            if await self.engine.changed(_IDLE_S):
                self.wakeup.again()

    async def _loop(self) -> None:
        while True:
            await self.wakeup.wait(self._nap_s())
            began_s = time.monotonic()
            await self._guarded_round()
            # However much there is to do, most of the time belongs to those who ask.
            await asyncio.sleep(_REST * (time.monotonic() - began_s))

    async def _guarded_round(self) -> None:
        """A round that fails is logged and made again: only who was replaced has to end."""
        try:
            await self.round()
        except StaleControlPlane:
            raise
        except StoreError as error:  # a full disk, say: what is stored is still good, and jobs go on
            log.warning("%s", error)
            await self._after_failure(str(error))
        except Exception as error:
            log.exception("a round failed; it is made again")
            await self._after_failure(f"a round failed: {type(error).__name__}: {' '.join(str(error).split())}")
        else:
            self._first.made()

    async def _after_failure(self, problem: str) -> None:
        self.decisions.complain(problem)
        self._first.failed(problem)
        await asyncio.sleep(_AGAIN_S)

    async def round(self) -> None:
        """Hear what happened, decide if there is reason to, and bring it about."""
        self.wakeup.round_begins()
        await self.ingest.take_in_turns()
        if self.ingest.look_at_nodes():
            with self.store.transaction() as t:
                self._record_cluster(t)
        now_s = self.clock()
        self._follow_clock(now_s)
        self._retry(now_s)
        self.past.tell(self.live.values(), self.cluster.accelerator())
        if not self.past.complete:
            self.wakeup.again()  # there is more to read, and nothing to wait for
        if trigger := self.wakeup.take_trigger() or ("tick" if self.rounds.is_due(now_s) else ""):
            with self.wakeup.answering(trigger):
                await self.decisions.decide(trigger)
        self.scaler.scale()
        self.ingest.store_training()
        await self._housekeeping.keep()
        self.suspects.clear()
        async with self.changed:
            self.changed.notify_all()

    def _nap_s(self) -> float:
        moments = [self.rounds.next_s(), *(job.retry_s for job in self.live.values() if job.retry_s)]
        return min(_IDLE_S, max(0.0, min(moments) - self.clock()) or 0.05)

    def _follow_clock(self, now_s: float) -> None:
        """A clock that is set back takes its appointments along: nobody waits as long as the jump."""
        back_s, self._latest_s = max(0.0, self._latest_s - now_s), now_s
        if not back_s:
            return
        self.rounds.set_back(back_s)
        for job in self.live.values():
            if job.retry_s:
                job.retry_s = max(job.retry_s - back_s, 1e-9)  # 0 is none

    def _retry(self, now_s: float) -> None:
        for job in self.live.values():
            if 0.0 < job.retry_s <= now_s:
                job.retry_s = 0.0  # once: it may have to wait for room like any other
                self.poke("retry")


def _stored_policy(store: Store, setting: str) -> tuple[Policy | None, str]:
    """The policy that was chosen while the system ran, if it still exists; else why not."""
    written = store.settings.get(setting)
    try:
        return (make_policy(written) if written else None), ""
    except ElastaneError as error:
        return None, f"the {setting} that was chosen cannot be used any more: {error}"
