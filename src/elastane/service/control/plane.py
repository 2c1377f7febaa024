"""The control plane: one loop that hears, decides and brings about; everything it must not forget is stored first.

It is built in storeys: ``holding`` (jobs and the store), ``hearing`` (reports), ``applying`` (grants), ``dividing``
(decisions), and here its life: how it takes up where the last one ended, goes round, and leaves.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from dataclasses import replace

from elastane.errors import ElastaneError
from elastane.jobs.states import HOLDING, State
from elastane.service.cluster_record import Layout
from elastane.service.control.active_job import LiveJob
from elastane.service.control.crash_suspects import FAILED
from elastane.service.control.round import Dividing
from elastane.service.control.shutdown_report import left_behind
from elastane.service.control.state import ControlSettings, Rounds
from elastane.service.control.transitions import LONGEST_BACKOFF_S, overlap, retry_at_s
from elastane.service.store import StaleControlPlane, StoreError
from elastane.service.store.rows import JobRow

__all__ = ["ControlPlane", "ControlSettings", "Rounds"]

log = logging.getLogger("elastane")

_IDLE_S = 1.0
_AGAIN_S = 1.0
"""Rest after a round that failed."""
_SHUTDOWN_S = 20.0
_REST = 4.0
"""Rest after a round, in times that it took."""
_CLOSE_EVERY_S = 10.0
"""How often it is looked for tokens that have expired."""
_KEEP_EVENTS, _KEEP_DECISIONS = 200_000, 5_000


class ControlPlane(Dividing):
    """Active jobs in memory, all jobs in the store, workers behind the engine."""

    _latest_s = _closed_s = 0.0

    async def open(self) -> None:
        """Take up where the last control plane ended, and go on."""
        await self.take_up()
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._loop())]

    async def take_up(self) -> None:
        """Be where the last control plane ended; ``round`` goes on from there."""
        self.store.claim()
        for row in self.store.active():
            self._take_up_job(row)
        await self.engine.open()
        asked = self.settings
        layout = Layout(self.known_nodes(), asked.cores, asked.interval_s, asked.min_run_s)
        with self.store.transaction() as t:
            t.set_setting("layout", layout.to_json())
        self._judge_suspects()
        self._ensure_all()
        for job in self.live.values():
            if job.holding:  # what has not left yet is nowhere in the store
                there = Counter(worker.node for worker in self.engine.processes(job.attempt))
                job.places = overlap(job.places, there)
        self._trigger = "start"

    def _take_up_job(self, row: JobRow) -> None:
        """Hold a job again, unless it can be read no more or too many control planes died over it."""
        strikes = self.suspects.strikes(row.id)
        if strikes >= FAILED and row.state not in HOLDING:  # it has no processes that could be ended
            self._leave_out(row, f"Elastane died {strikes} times over it while starting")
            return
        if strikes:  # what it had reported is the likely cause
            log.warning("Elastane died over job %s while starting; what was learned of it is forgotten", row.id)
            row = replace(row, training={}, profile={})
        try:
            with self.suspects.looking_at(row.id):
                job = LiveJob.of(row)
                # A clock that was set back since then must not keep it waiting.
                job.retry_s = min(retry_at_s(row), self.clock() + LONGEST_BACKOFF_S)
                self.live[row.id] = job
        except Exception as error:  # whatever an earlier version, or a job, left there
            self._leave_out(row, f"what is stored of it cannot be read ({' '.join(str(error).split())[:200]})")

    def _leave_out(self, row: JobRow, why: str) -> None:
        """Go on without a job, which stays as it is stored until it is cancelled or a start can read it."""
        self.unread[row.id] = f"it is left alone until the next start: {why}; it can be cancelled"
        self.problems.append(f"job {row.id} is left alone until the next start: {why}")

    def _judge_suspects(self) -> None:
        """Set aside whom two starts in a row died over; if it is not known over whom, look at one after the other."""
        for job in list(self.live.values()):
            if self.suspects.strikes(job.id) >= FAILED:
                self.set_aside(job, ElastaneError("Elastane died twice while it looked at them"))
        if self.suspects.nobody:
            self.set_aside_unreadable()

    async def close(self, *, leave_running: bool) -> str:
        """Stop deciding; jobs go on, or are saved and end.  Returns what became of them, in words."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        told = [] if leave_running else await self._suspend_all()
        await self.engine.close(leave_running=leave_running)
        self._take(self.engine.reports())
        self._store_training(force=True)
        self.store.close()
        return "jobs train on" if leave_running else left_behind(job for job in told if job.id in self.live)

    async def _suspend_all(self) -> list[LiveJob]:
        """Save everything that can be saved; it goes on when a control plane takes this home up again."""
        self._take(self.engine.reports())
        told = [job for job in self.live.values() if job.row.grant is not None]
        with self.store.transaction() as t:
            for job in self.live.values():
                if job.row.state in (State.STARTING, State.RUNNING, State.RESIZING):
                    self._suspend(t, job, "Elastane is shutting down")
        self._ensure_all()
        deadline = time.monotonic() + _SHUTDOWN_S
        while any(job.row.grant for job in self.live.values()) and time.monotonic() < deadline:
            await self.engine.changed(0.2)
            self._take(self.engine.reports())
        return told

    async def failed(self) -> None:
        """Returns (or raises) when the loop has ended, which it should not."""
        await asyncio.gather(*self._tasks)

    async def _listen(self) -> None:
        while True:
            if await self.engine.changed(_IDLE_S):
                self._wake.set()

    async def _loop(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._nap_s())
            began_s = time.monotonic()
            await self._guarded_round()
            self.settled.set()
            # However much there is to do, most of the time belongs to those who ask.
            await asyncio.sleep(_REST * (time.monotonic() - began_s))

    async def _guarded_round(self) -> None:
        """A round that fails is logged and made again: only who was replaced has to end."""
        try:
            await self.round()
        except StaleControlPlane:
            raise
        except StoreError as error:  # a full disk, say: what is stored is still good, and jobs go on
            self.rounds.problem = str(error)
            log.warning("%s", error)
            await asyncio.sleep(_AGAIN_S)
        except Exception as error:
            self.rounds.problem = f"a round failed: {type(error).__name__}: {error}"
            log.exception("a round failed; it is made again")
            await asyncio.sleep(_AGAIN_S)

    async def first_round(self) -> None:
        """Returns when one has been made, or the loop has ended."""
        waiting = asyncio.ensure_future(self.settled.wait())
        await asyncio.wait({waiting, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()

    async def round(self) -> None:
        """Hear what happened, decide if there is reason to, and bring it about."""
        self._wake.clear()
        await self._take_in_turns()
        self._look_at_nodes()
        now = self.clock()
        self._follow_clock(now)
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
        self.suspects.clear()
        async with self.changed:
            self.changed.notify_all()

    def _nap_s(self) -> float:
        moments = [
            self.rounds.due_s,
            *self.rounds.wake_s,
            *(j.retry_s for j in self.live.values() if j.retry_s),
        ]
        return min(_IDLE_S, max(0.0, min(moments, default=0.0) - self.clock()) or 0.05)

    def _follow_clock(self, now: float) -> None:
        """A clock that is set back takes its appointments along: nobody waits as long as the jump."""
        back_s, self._latest_s = max(0.0, self._latest_s - now), now
        if not back_s:
            return
        self.rounds.due_s -= back_s
        self.rounds.wake_s = tuple(moment - back_s for moment in self.rounds.wake_s)
        for job in self.live.values():
            if job.retry_s:
                job.retry_s = max(job.retry_s - back_s, 1e-9)  # 0 is none

    def _retry(self, now: float) -> None:
        for job in self.live.values():
            if 0.0 < job.retry_s <= now:
                job.retry_s = 0.0  # once: it may have to wait for room like any other
                self.poke("retry")

    def _close_expired(self, now: float) -> None:
        """What has expired is closed for good, so that no clock that is set back opens it again."""
        if 0.0 <= now - self._closed_s < _CLOSE_EVERY_S:
            return
        self._closed_s = now
        if self.store.expired_tokens(now):
            with self.store.transaction() as t:
                t.close_expired_tokens(now)

    async def _keep_house(self) -> None:
        self._close_expired(self.clock())
        if not self.store.backup_due():
            return
        try:
            await asyncio.to_thread(self.store.backup)
        except ElastaneError as error:  # a full disk, say: what is stored is still good
            log.warning("the copy of the store could not be made: %s", error)
        with self.store.transaction() as t:
            t.prune(_KEEP_EVENTS, _KEEP_DECISIONS)
