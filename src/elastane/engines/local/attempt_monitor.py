"""Looks after one attempt: sees that its process exists, passes wishes on, and reads what it reports."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from elastane.engines.contract import (
    Attempt,
    Ending,
    Over,
    Report,
    Running,
    Told,
    Wanted,
    WorkerFacts,
    places_of,
)
from elastane.engines.local.ask_agent import ask, end_fork_servers
from elastane.engines.local.job_users import JobsAs
from elastane.engines.local.json_files import Lock, read_json, write_json
from elastane.engines.local.launch_file import (
    Ended,
    ended_from_json,
    ended_json,
    launch_to_json,
    moment,
)
from elastane.engines.local.lock_holders import kill_holders
from elastane.engines.local.marked_processes import kill_marked
from elastane.engines.local.members_file import Members, read_members
from elastane.engines.local.paths import BEGUN, CONTROL, ENDED, JOURNAL, LAUNCH, LOCK, Layout
from elastane.engines.local.untrusted_files import LOOK_BYTES, clean, has_more, read_bytes, read_events, size_of
from elastane.errors import ElastaneError
from elastane.train.coordinator.messages import TO_CLIENT, Ok, Place, StopJob
from elastane.train.coordinator.script_kind import JobKind
from elastane.train.exit_cause import NODE_LOST, ExitCause, ExitKind
from elastane.train.reports.events import Resized

log = logging.getLogger("elastane")

LOOK_S = 0.2
_LAST_LOOKS, _LAST_LOOK_S = 20, 0.05
"""How often the reports of an attempt that has ended are looked at; of the rest only the end is read."""
_LINES_PER_S = 200.0
"""Lines of its reports that are read in the long run: an honest job writes about one a second."""
_AGAIN_S = 1.0
_STUMBLES = 5
"""How often in a row looking after an attempt may fail before it is given up."""
_START_S = 10.0
_TRIES, _LIVED_S = 3, 3.0
"""How often its process may be started in a row, and how long it lives when all is well."""
_DEAF_S = {Ending.CANCEL: 4.0, Ending.SUSPEND: 10.0}
"""How long an attempt that is to end may leave that unanswered; one that is suspended has something to lose."""
_CANCELLED_S = 8.0
"""How long one that is cancelled may take in all."""
_KILLS = 20
"""How often it may be killed in a row: that is none of its doing, but somebody may mean it."""


class AttemptMonitor:
    """One attempt on this machine."""

    def __init__(
        self,
        home: Path,
        wanted: Wanted,
        report: Callable[[Report], None],
        begin: Callable[[Path], Awaitable[subprocess.Popen[bytes]]],
        jobs_as: JobsAs | None = None,
    ) -> None:
        self.wanted = wanted
        self.over = False
        self._home = home
        self._report = report
        self._begin = begin
        self._jobs_as = jobs_as or JobsAs()
        self._poke = asyncio.Event()
        self._lock = Lock(wanted.launch.folder / LOCK)
        self._offset = wanted.seen
        self._read_s = 0.0
        """From when on its reports are read again."""
        self._told: object = None
        self._starts = self._kills = 0
        self._started_s = 0.0
        self._ending_s: float | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def attempt(self) -> Attempt:
        """The attempt that this monitor looks after."""
        return self.wanted.launch.attempt

    def want(self, wanted: Wanted) -> None:
        """From now on this."""
        self.wanted = wanted
        self._poke.set()

    async def run(self) -> None:
        """Until the attempt has ended; a failure of ours is logged and tried again, so that it can still be ended."""
        stumbles = 0
        while not self.over:
            self._poke.clear()
            try:
                await self._look()
                stumbles = 0
            except Exception:  # whatever it is, nobody else looks after this attempt
                stumbles += 1
                log.exception("attempt %s could not be looked after", self.attempt)
                await self._stumbled(stumbles)
            if not self.over:
                await self._pause(LOOK_S if not stumbles else _AGAIN_S)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._poke.wait(), seconds)

    async def _look(self) -> None:
        """Once: at its end, at its process, at what it says."""
        self.wanted.launch.folder.mkdir(parents=True, exist_ok=True)
        if self._lock.held:  # as long as somebody does, a written end means nothing
            if time.monotonic() > self._started_s + _LIVED_S:
                self._starts = self._kills = 0
            self._ending_s = None if self.wanted.grant else self._ending_s or time.monotonic()
            if time.monotonic() >= self._read_s:
                await self._read_journal()
            await self._pass_on()
            if self._overdue():
                await self.force()
        elif self._ended() is not None:
            await self._clear_up()
        else:
            await self._not_running()

    def _overdue(self) -> bool:
        """Whether whoever runs it has had time enough to end it."""
        if self._ending_s is None:
            return False
        passed_s, ending = time.monotonic() - self._ending_s, self.wanted.ending
        deaf = self._told != ending and passed_s >= _DEAF_S[ending]
        return deaf or (ending is Ending.CANCEL and passed_s >= _CANCELLED_S)

    async def force(self) -> None:
        """Kill whoever holds the lock of an attempt that is to end: what it leaves is cleared up with the next look."""
        killed = await asyncio.to_thread(kill_holders, self.wanted.launch.folder / LOCK)
        if killed:
            log.warning("attempt %s did not end when asked; its process was killed", self.attempt)

    async def _clear_up(self) -> None:
        """Believe the end that is written, but tell nobody before, with the lock in hand, all processes are gone."""
        lock = Lock(self.wanted.launch.folder / LOCK)
        if not lock.take():
            return
        try:
            await self._end_all()
            ended = self._ended()
        finally:
            lock.release()
        if ended is not None:
            await self._read_rest()
            self._say_over(ended)

    async def _stumbled(self, times: int) -> None:
        """Give it up once that has happened too often, or at once if it is to end anyway.

        The process that runs it is killed first, so that none can begin anything beside the next attempt.
        """
        if times < _STUMBLES and self.wanted.grant is not None:
            return
        with contextlib.suppress(Exception):
            await self.force()
            if self._process is not None:
                self._process.kill()
            lock = Lock(self.wanted.launch.folder / LOCK)
            with contextlib.suppress(OSError):  # something else may stand there, which nobody can hold
                if not lock.take():
                    return  # it has not gone yet: with the next look
            try:
                await self._end_all()
            finally:
                lock.release()
            ended = Ended(NODE_LOST.told("it could not be looked after; see elastane.log"), time.time())
            self._say_over(ended)

    def _ended(self) -> Ended | None:
        return ended_from_json(read_json(self.wanted.launch.folder / ENDED))

    def _say_over(self, ended: Ended) -> None:
        self.over = True
        # The number is where the next attempt begins to read: both write to one journal.
        self._report(Over(self.attempt, self._offset, ended.exit, ended.at_s))

    # Its process.

    async def _not_running(self) -> None:
        """Start it, or find out why it is gone."""
        folder = self.wanted.launch.folder
        begun = (folder / BEGUN).exists()
        self._count_kill()
        if self.wanted.grant is None:
            kind = ExitKind.SUSPENDED if self.wanted.ending is Ending.SUSPEND else ExitKind.CANCELLED
            await self._declare(kind, self.wanted.why)
        elif begun and not self._adoptable():
            await self._declare(ExitKind.NODE_LOST, "the process that ran it was killed")
        elif self._kills >= _KILLS:
            await self._declare(
                ExitKind.NODE_LOST, f"the process that runs it was killed {self._kills} times in a row"
            )
        elif self._starts >= _TRIES:
            await self._declare(ExitKind.UNSTARTABLE, self._last_line())
        else:
            self._starts, self._started_s = self._starts + 1, time.monotonic()
            await self._launch(folder, places_of(self.wanted.grant), begun=begun)

    async def _launch(self, folder: Path, places: dict[str, int], *, begun: bool) -> None:
        """Write down what is to run, where and as whom, and have it run."""
        launch = self.wanted.launch
        try:
            identity = await asyncio.to_thread(self._jobs_as.identity, self._home, launch.tenant)
        except ElastaneError as error:
            await self._declare(ExitKind.UNSTARTABLE, str(error))
            return
        write_json(folder / LAUNCH, launch_to_json(launch, places, identity), durable=True)
        self._told = places if not begun else None
        await self._start(folder)

    def _count_kill(self) -> None:
        """A process that was killed has not failed to start."""
        if self._process is not None and (self._process.poll() or 0) < 0:
            self._process = None
            self._starts, self._kills = max(0, self._starts - 1), self._kills + 1

    def _adoptable(self) -> bool:
        members = read_members(self.wanted.launch.folder)
        known = self.wanted.launch.records / CONTROL
        return known.exists() and (members is None or members.kind == JobKind.ADAPTIVE)

    async def _start(self, folder: Path) -> None:
        self._process = await self._begin(folder)
        deadline = time.monotonic() + _START_S
        while not self._lock.held and self._process.poll() is None and time.monotonic() < deadline:
            await asyncio.sleep(0.02)

    async def _declare(self, kind: ExitKind, detail: str) -> None:
        """End an attempt that nobody runs; with the lock in hand, so that nobody begins to."""
        folder = self.wanted.launch.folder
        lock = Lock(folder / LOCK)
        if lock.take():
            try:
                await self._end_all()
                if self._ended() is None:
                    write_json(
                        folder / ENDED, ended_json(ExitCause(kind, detail=detail), time.time()), durable=True
                    )
            finally:
                lock.release()
        self._poke.set()

    async def _end_all(self) -> None:
        layout = Layout(self._home)
        await end_fork_servers(layout, str(self.attempt), layout.nodes())
        kill_marked(self._home, lambda mark: mark.attempt == str(self.attempt))
        with contextlib.suppress(OSError):  # something else may stand there: that keeps nobody alive
            (self.wanted.launch.records / CONTROL).unlink()

    def _last_line(self) -> str:
        data = read_bytes(self.wanted.launch.folder, "job.log")
        lines = data.decode(errors="replace").strip().splitlines()
        return clean(lines[-1]) if lines else "its process ends at once, without a reason"

    async def _pass_on(self) -> None:
        """Tell the supervisor what is wanted, until it has understood."""
        grant = self.wanted.grant
        wish: object = places_of(grant) if grant is not None else self.wanted.ending
        if wish == self._told:
            return
        facts = read_json(self.wanted.launch.records / CONTROL)
        if facts is None:
            return
        message = Place(places_of(grant)) if grant is not None else _stop(self.wanted)
        if isinstance(await ask(facts, message, TO_CLIENT), Ok):
            self._told = wish

    # What it says.

    async def _read_journal(self) -> bool:
        """Pass on what is new, as far as one look goes; whether there is more."""
        path = self.wanted.launch.records / JOURNAL
        if not has_more(path, self._offset):
            return False
        look = await asyncio.to_thread(read_events, path, self._offset)
        for number, event in look.events:
            self._report(Told(self.attempt, number, event))
        # Of several changes only the last is still so.
        resized = [(number, event) for number, event in look.events if isinstance(event, Resized)]
        if resized:
            self._say_running(*resized[-1])
        self._offset = look.offset
        self._read_s = time.monotonic() + look.lines / _LINES_PER_S
        return look.more

    async def _read_rest(self) -> None:
        """All that an honest job can have said since the last look; of much more than that, the end."""
        for _ in range(_LAST_LOOKS):
            if not await self._read_journal():
                return
            await asyncio.sleep(_LAST_LOOK_S)
        size = size_of(self.wanted.launch.records / JOURNAL)
        self._offset = max(self._offset, size - LOOK_BYTES)
        await self._read_journal()
        self._offset = max(self._offset, size)

    def _say_running(self, number: int, event: Resized) -> None:
        members = read_members(self.wanted.launch.folder) or Members("")
        counts: dict[str, int] = {}
        for worker in self.processes():
            counts[worker.node] = counts.get(worker.node, 0) + 1
        if self.wanted.grant is not None and self.wanted.grant.workers == event.after:
            counts = places_of(self.wanted.grant)
        at_s = moment(event.at_s)
        self._report(Running(self.attempt, number, counts, members.kind, members.why_kind, at_s))

    def processes(self) -> list[WorkerFacts]:
        """Workers, as their supervisor last wrote them down."""
        members = read_members(self.wanted.launch.folder)
        return members.facts() if members is not None else []


def _stop(wanted: Wanted) -> StopJob:
    """The request to end; a supervisor of an earlier version finds the kind in the first of the words."""
    kind = ExitKind.SUSPENDED if wanted.ending is Ending.SUSPEND else ExitKind.CANCELLED
    return StopJob(f"{kind.value}: {wanted.why}".rstrip(": "), kind.value)
