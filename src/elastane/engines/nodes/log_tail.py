"""Follows workers' logs on a node, and gives what is new in parts for the head.

A log is cut when it grows too long (``log_rotation``), which is done here as well, so that its tail is not lost: the
part set aside is read to its end before the log is read from its new beginning.  A worker that writes more than may
be sent is followed at its newest end; what lies between is left out, which the head sees by the offsets.

The folder is the job's: only regular files with one name are read, each opened from its folder, never through a link.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from elastane.engines.local.json_files import read_json, write_json
from elastane.engines.local.log_rotation import LONGEST_BYTES, rotate
from elastane.engines.local.untrusted_files import open_below
from elastane.engines.nodes.log_parts import PART_BYTES, RATE_BYTES, Budget, LogPart, is_worker

LOGS = "logs"
BURST_BYTES = 1 << 20
PATIENT_BYTES = 4 << 20
"""So far behind a log is followed in full, as fast as may be; further behind it is followed at its end."""
NEWEST_BYTES = 1 << 20
"""So much of its end."""
LOOK_BYTES = 4 << 20
"""Given at a time, of all workers together."""
_MOST_LOGS = 2000

_Identity = tuple[int, int]
"""Inode and time of the last change."""


@dataclass(slots=True)
class _Stream:
    """Where the log of one worker is followed."""

    budget: Budget
    base: int = 0
    """The offset at which the file that is read begins."""
    at: int = 0
    """How far that file was read."""
    aside: _Identity | None = None
    """The part that was set aside last; one that was there before the log was first looked at is read as well."""
    old_size: int | None = None
    """Set while the part that was set aside is being read: its size."""
    inode: int = 0
    ended: tuple[int, int, int] | None = None
    """Inode, size and time of the file when it was read to its end: nothing is new as long as they are the same."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How much is given of a log, and when it is cut."""

    rate: int = RATE_BYTES
    burst: int = BURST_BYTES
    patient: int = PATIENT_BYTES
    newest: int = NEWEST_BYTES
    look: int = LOOK_BYTES
    part: int = PART_BYTES
    longest: int = LONGEST_BYTES


class LogTail:
    """The logs of one attempt's job below ``run``; ``memory`` is a file of our own that outlives this process."""

    def __init__(
        self,
        attempt: str,
        run: Path,
        memory: Path | None = None,
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._attempt, self._run, self._memory, self._clock = attempt, run, memory, clock
        self._pace = pace or Pace()
        self._streams: dict[str, _Stream] = {}
        self._last = 0
        self._recall()

    def resume(self, offsets: Mapping[str, int]) -> None:
        """Go on where the head is: after a line was broken, and before anything is sent on the first.

        Of a worker that is not named the head has nothing.
        """
        for worker in {*offsets, *self._streams}:
            if is_worker(worker):
                self._go_to(worker, self._stream(worker), offsets.get(worker, 0))

    def look(self, *, sending: bool = True) -> list[LogPart]:
        """What is new and may be sent now.  Reads files: call it in a thread.

        Without ``sending`` logs are only kept short, and it is noticed where they are cut.
        """
        rotate(self._run / LOGS, self._pace.longest)
        left, parts = self._pace.look, list[LogPart]()
        for worker in self._in_turn():
            stream = self._stream(worker)
            allowed = min(left, stream.budget.left(self._clock())) if sending else 0
            found = self._read(worker, stream, allowed, self._pace.patient)
            given = sum(len(part.data) for part in found)
            stream.budget.take(given)
            left -= given
            parts += found
        return parts

    def rest(self) -> list[LogPart]:
        """What is new once nobody writes any more: the newest end of each log, whatever was sent before."""
        parts = []
        for worker in self._in_turn():
            parts += self._read(worker, self._stream(worker), self._pace.newest, self._pace.newest)
        return parts

    def _in_turn(self) -> list[str]:
        """Workers whose log may have more; whoever was served first the last time comes at the end."""
        found = list[int]()
        with contextlib.suppress(OSError), os.scandir(self._run / LOGS) as entries:
            for entry in entries:
                worker = entry.name.removesuffix(".log")
                if worker != entry.name and is_worker(worker) and self._is_new(worker, entry):
                    found.append(int(worker[1:]))
        numbers = sorted(found)[-_MOST_LOGS:]
        place = sum(number <= self._last for number in numbers)
        turn = numbers[place:] + numbers[:place]
        self._last = turn[0] if turn else 0
        return [f"w{number}" for number in turn]

    def _is_new(self, worker: str, entry: os.DirEntry[str]) -> bool:
        """Whether a log may have more than was read of it; most have ended, and are not opened again."""
        known = self._streams.get(worker)
        return known is None or known.ended is None or known.ended != _sign(entry.stat(follow_symlinks=False))

    def _stream(self, worker: str) -> _Stream:
        if worker not in self._streams:
            budget = Budget(self._pace.rate, self._pace.burst, self._clock())
            self._streams[worker] = _Stream(budget)
        return self._streams[worker]

    def _read(self, worker: str, stream: _Stream, allowed: int, patient: int) -> list[LogPart]:
        """Parts of at most so many bytes together."""
        parts: list[LogPart] = []
        try:
            file = open_below(self._run, LOGS, f"{worker}.log")
        except (OSError, ValueError):
            return parts
        with _closing(file):
            facts = os.fstat(file)
            self._notice_cuts(worker, stream, facts)
            self._skip(stream, facts.st_size, patient)
            while allowed > 0:
                want = min(allowed, self._pace.part)
                offset = stream.base + stream.at
                data = self._old(worker, stream, want) if stream.old_size is not None else b""
                if not data:
                    offset = stream.base + stream.at
                    data = os.pread(file, want, stream.at)
                if not data:
                    break
                stream.at += len(data)
                allowed -= len(data)
                parts.append(LogPart(self._attempt, worker, offset, data))
            complete = stream.old_size is None and stream.at == facts.st_size
            stream.ended = _sign(facts) if complete else None
        return parts

    def _notice_cuts(self, worker: str, stream: _Stream, facts: os.stat_result) -> None:
        aside, size = self._aside(worker)
        if aside is not None and aside != stream.aside:
            if (
                stream.old_size is not None
            ):  # what was set aside before is gone, and with it what was not read of it
                stream.base, stream.at = stream.base + stream.old_size, 0
            stream.aside, stream.old_size, stream.inode = aside, size, facts.st_ino
            self._remember()
        elif stream.old_size is None and (facts.st_size < stream.at or stream.inode not in (0, facts.st_ino)):
            stream.base, stream.at = stream.base + stream.at, 0  # somebody else cut or replaced it
            self._remember()
        stream.inode = facts.st_ino

    def _old(self, worker: str, stream: _Stream, want: int) -> bytes:
        """More of the part that was set aside; nothing once it was read to its end."""
        assert stream.old_size is not None
        with contextlib.suppress(OSError, ValueError):
            file = open_below(self._run, LOGS, f"{worker}.log.1")
            with _closing(file):
                data = os.pread(file, min(want, max(0, stream.old_size - stream.at)), stream.at)
            if data:
                return data
        self._leave_old(stream)
        return b""

    def _leave_old(self, stream: _Stream) -> None:
        assert stream.old_size is not None
        stream.base, stream.at, stream.old_size = stream.base + stream.old_size, 0, None
        self._remember()

    def _skip(self, stream: _Stream, size: int, patient: int) -> None:
        """Pass over the middle of what nobody could send in time."""
        behind = size - stream.at if stream.old_size is None else stream.old_size - stream.at + size
        if behind <= patient:
            return
        over = behind - min(self._pace.newest, patient)
        if stream.old_size is not None:
            if over < stream.old_size - stream.at:
                stream.at += over
                return
            over -= stream.old_size - stream.at
            self._leave_old(stream)
        stream.at += over

    def _go_to(self, worker: str, stream: _Stream, offset: int) -> None:
        stream.ended = None
        if stream.old_size is None and offset < stream.base:
            aside, size = self._aside(worker)
            if aside is not None and aside == stream.aside and size <= stream.base:
                stream.base, stream.old_size = stream.base - size, size
        stream.at = max(0, offset - stream.base)
        if stream.old_size is not None and stream.at >= stream.old_size:
            beyond = stream.at - stream.old_size
            self._leave_old(stream)
            stream.at = beyond

    def _aside(self, worker: str) -> tuple[_Identity | None, int]:
        """The part of a log that was set aside, and its size."""
        try:
            file = open_below(self._run, LOGS, f"{worker}.log.1")
        except (OSError, ValueError):
            return None, 0
        with _closing(file):
            facts = os.fstat(file)
        return (facts.st_ino, facts.st_ctime_ns), facts.st_size

    def _remember(self) -> None:
        """Write down where the files of all logs begin: without that nobody could know after our own end."""
        if self._memory is not None:
            bases = {
                name: [stream.base + (stream.old_size or 0), *(stream.aside or ())]
                for name, stream in self._streams.items()
                if stream.base or stream.aside
            }
            with contextlib.suppress(OSError):  # a full disk: the log may be told twice after a crash
                write_json(self._memory, bases)

    def _recall(self) -> None:
        known = read_json(self._memory) if self._memory is not None else None
        for name, numbers in (known or {}).items():
            if not is_worker(name) or not isinstance(numbers, list) or len(numbers) not in (1, 3):
                continue
            if all(isinstance(number, int) for number in numbers):
                stream = self._stream(name)
                stream.base = numbers[0]
                stream.aside = (numbers[1], numbers[2]) if len(numbers) == 3 else None


def _sign(facts: os.stat_result) -> tuple[int, int, int]:
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


@contextlib.contextmanager
def _closing(file: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(file)
