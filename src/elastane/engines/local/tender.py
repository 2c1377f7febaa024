"""Looks after one attempt: sees that its process exists, passes wishes on, and reads what it reports."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from elastane.engines.contract import Attempt, Cause, Ending, Over, Report, Running, Told, Wanted, WorkerFacts
from elastane.engines.local.agents import ask, end_nurseries
from elastane.engines.local.files import Lock, read_json, write_json
from elastane.engines.local.launching import ended_json, launch_to_json, places_of
from elastane.engines.local.layout import BEGUN, CONTROL, ENDED, LAUNCH, LOCK, MEMBERS, Layout
from elastane.engines.local.sweep import kill_marked
from elastane.train.reports.events import Event, Resized, from_json
from elastane.train.reports.journal import FILE_NAME

LOOK_S = 0.2
_START_S = 10.0
_TRIES, _LIVED_S = 3, 3.0
"""How often its process may be started in a row, and how long it lives when all is well."""
_KILLS = 20
"""How often it may be killed in a row: that is none of its doing, but somebody may mean it."""


class Tender:
    """One attempt on this machine."""

    def __init__(
        self,
        home: Path,
        wanted: Wanted,
        report: Callable[[Report], None],
        begin: Callable[[Path], subprocess.Popen[bytes]],
    ) -> None:
        self.wanted = wanted
        self.over = False
        self._home = home
        self._report = report
        self._begin = begin
        self._poke = asyncio.Event()
        self._lock = Lock(wanted.launch.folder / LOCK)
        self._offset = wanted.seen
        self._told: object = None
        self._starts = self._kills = 0
        self._started_s = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def attempt(self) -> Attempt:
        """Which one."""
        return self.wanted.launch.attempt

    def want(self, wanted: Wanted) -> None:
        """From now on this."""
        self.wanted = wanted
        self._poke.set()

    async def run(self) -> None:
        """Until the attempt has ended."""
        self.wanted.launch.folder.mkdir(parents=True, exist_ok=True)
        while not self.over:
            self._poke.clear()
            ended = read_json(self.wanted.launch.folder / ENDED)
            if ended is not None:
                self._read_journal()
                # The number is where the next attempt begins to read: both write to one journal.
                self._say_over(
                    self._offset, Cause(ended["cause"]), str(ended["detail"]), ended["code"], ended["at_s"]
                )
                return
            if self._lock.held:
                if time.monotonic() > self._started_s + _LIVED_S:
                    self._starts = self._kills = 0
                self._read_journal()
                await self._pass_on()
            else:
                await self._not_running()
            try:
                await asyncio.wait_for(self._poke.wait(), LOOK_S)
            except TimeoutError:
                continue

    def _say_over(self, number: int, cause: Cause, detail: str, code: int | None, at_s: float) -> None:
        self.over = True
        self._report(Over(self.attempt, number, cause, detail, code, at_s))

    # Its process.

    async def _not_running(self) -> None:
        """Start it, or find out why it is gone."""
        folder = self.wanted.launch.folder
        begun = (folder / BEGUN).exists()
        self._count_kill()
        if self.wanted.grant is None:
            cause = Cause.SUSPENDED if self.wanted.ending is Ending.SUSPEND else Cause.CANCELLED
            await self._declare(cause, self.wanted.why)
        elif begun and not self._adoptable():
            await self._declare(Cause.LOST, "the process that ran it was killed")
        elif self._kills >= _KILLS:
            await self._declare(Cause.LOST, f"the process that runs it was killed {self._kills} times in a row")
        elif self._starts >= _TRIES:
            await self._declare(Cause.UNSTARTABLE, self._last_line())
        else:
            self._starts, self._started_s = self._starts + 1, time.monotonic()
            write_json(
                folder / LAUNCH, launch_to_json(self.wanted.launch, places_of(self.wanted.grant)), durable=True
            )
            self._told = places_of(self.wanted.grant) if not begun else None
            await self._start(folder)

    def _count_kill(self) -> None:
        """A process that was killed has not failed to start."""
        if self._process is not None and (self._process.poll() or 0) < 0:
            self._process = None
            self._starts, self._kills = max(0, self._starts - 1), self._kills + 1

    def _adoptable(self) -> bool:
        members = read_json(self.wanted.launch.folder / MEMBERS)
        known = self.wanted.launch.run / CONTROL
        return known.exists() and (members is None or members.get("kind") == "adaptive")

    async def _start(self, folder: Path) -> None:
        self._process = self._begin(folder)
        deadline = time.monotonic() + _START_S
        while not self._lock.held and self._process.poll() is None and time.monotonic() < deadline:
            await asyncio.sleep(0.02)

    async def _declare(self, cause: Cause, detail: str) -> None:
        """End an attempt that nobody runs; with the lock in hand, so that nobody begins to."""
        folder = self.wanted.launch.folder
        lock = Lock(folder / LOCK)
        if lock.take():
            try:
                await self._end_all()
                if not (folder / ENDED).exists():
                    write_json(folder / ENDED, ended_json(cause, detail, None, time.time()), durable=True)
            finally:
                lock.release()
        self._poke.set()

    async def _end_all(self) -> None:
        layout = Layout(self._home)
        await end_nurseries(layout, str(self.attempt), layout.nodes())
        kill_marked(self._home, lambda mark: mark.attempt == str(self.attempt))
        (self.wanted.launch.run / CONTROL).unlink(missing_ok=True)

    def _last_line(self) -> str:
        try:
            lines = (self.wanted.launch.folder / "job.log").read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "its process ends at once, without a reason"

    async def _pass_on(self) -> None:
        """Tell the supervisor what is wanted, until it has understood."""
        grant = self.wanted.grant
        wish: object = places_of(grant) if grant is not None else self.wanted.ending
        if wish == self._told:
            return
        facts = read_json(self.wanted.launch.run / CONTROL)
        if facts is None:
            return
        message = (
            {"type": "place", "places": places_of(grant)}
            if grant is not None
            else {"type": "stop", "cause": f"{_WORD[self.wanted.ending]}: {self.wanted.why}".rstrip(": ")}
        )
        answer = await ask(facts, message)
        if answer is not None and answer["type"] == "ok":
            self._told = wish

    # What it says.

    def _read_journal(self) -> None:
        for number, event in _events(self.wanted.launch.run / FILE_NAME, self._offset):
            self._offset = number
            if event is None:
                continue
            self._report(Told(self.attempt, number, event))
            if isinstance(event, Resized):
                self._say_running(number, event)

    def _say_running(self, number: int, event: Resized) -> None:
        members = read_json(self.wanted.launch.folder / MEMBERS) or {}
        counts: dict[str, int] = {}
        for worker in self.processes():
            counts[worker.node] = counts.get(worker.node, 0) + 1
        if self.wanted.grant is not None and self.wanted.grant.workers == event.after:
            counts = places_of(self.wanted.grant)
        kind, why = str(members.get("kind", "")), str(members.get("why_kind", ""))
        self._report(Running(self.attempt, number, counts, kind, why, event.at_s))

    def processes(self) -> list[WorkerFacts]:
        """Workers, as their supervisor last wrote them down."""
        members = read_json(self.wanted.launch.folder / MEMBERS) or {}
        return [
            WorkerFacts(name, str(facts["node"]), facts["pid"], str(facts["phase"]))
            for name, facts in members.get("workers", {}).items()
        ]


_WORD = {Ending.SUSPEND: Cause.SUSPENDED.value, Ending.CANCEL: Cause.CANCELLED.value}


def _events(path: Path, offset: int) -> list[tuple[int, Event | None]]:
    """(offset after it, event) for every whole line after ``offset``."""
    try:
        with path.open("rb") as file:
            if file.seek(0, os.SEEK_END) <= offset:
                return []
            file.seek(offset)
            data = file.read()
    except OSError:
        return []
    found: list[tuple[int, Event | None]] = []
    for line in data.split(b"\n")[:-1]:
        offset += len(line) + 1
        found.append((offset, _event(line)))
    return found


def _event(line: bytes) -> Event | None:
    try:
        return from_json(json.loads(line))
    except ValueError:
        return None  # torn by a crash; it was never told
