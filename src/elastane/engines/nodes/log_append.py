"""Writes what nodes send of workers' logs into the logs on the head: nothing twice, and what is missing is said.

Where a log ends is known by its size: a small file of ours says which offset belongs to which size, and is written
anew only when the file gets what is no data (a line about a gap) or is cut.  While that is done it says "as far as
this offset, whatever the size": whoever takes over after a crash goes on there.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from elastane.engines.local.json_files import read_json, write_json
from elastane.engines.local.log_rotation import LONGEST_BYTES, set_aside
from elastane.engines.local.paths import Layout
from elastane.engines.local.untrusted_files import size_of
from elastane.engines.nodes.log_parts import RATE_BYTES, Budget, LogPart, is_worker, job_of
from elastane.engines.nodes.log_tail import LOGS

MOST_PART_BYTES = 1 << 20
"""Data that is taken in one part."""
BURST_BYTES = 16 << 20
"""More than an honest node sends at once, also after it was away."""
_SHIPPED = "shipped"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOG = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class RefusedPartError(ValueError):
    """A part of a log has values that no node of ours sends, or its place cannot be written."""


def gap_line(count: int) -> bytes:
    """The line in a log that stands for what never came."""
    return f"elastane: … {count:,} bytes left out\n".encode()


@dataclass(slots=True)
class _Place:
    """How far a log is: its end is at ``offset``, where the file has ``size`` bytes."""

    offset: int
    size: int
    budget: Budget
    known: bool
    """Whether that was ever written down."""


class LogAppender:
    """The logs of all jobs of a head."""

    def __init__(
        self,
        layout: Layout,
        *,
        longest_bytes: int = LONGEST_BYTES,
        rate: int = RATE_BYTES,
        burst: int = BURST_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._layout, self._longest, self._clock = layout, longest_bytes, clock
        self._rate, self._burst = rate, burst
        self._places: dict[tuple[str, str], _Place] = {}

    def append(self, part: LogPart) -> int:
        """Write what is new in a part; returns the offset up to which the log is known now.  Blocks for the disk.

        Raises:
            RefusedPartError: it is none of ours, or its log is something else than a file.
            OSError: the disk is full.
        """
        job = job_of(part.attempt)
        if job is None or not is_worker(part.worker) or len(part.data) > MOST_PART_BYTES or part.offset < 0:
            raise RefusedPartError(
                f"no part of a log: attempt {part.attempt[:80]!a}, worker {part.worker[:80]!a}"
            )
        if not self._layout.records(job).is_dir():
            raise RefusedPartError(f"there is no job {job!a} whose log that could be")
        logs = self._layout.run(job) / LOGS
        place = self._place(job, part.worker)
        data = part.data[max(0, place.offset - part.offset) :]
        data = data[: place.budget.left(self._clock())]
        if part.offset + len(part.data) <= place.offset or not data:
            return place.offset
        file = _open(logs, part.worker)
        try:
            size = os.fstat(file).st_size
            if size != place.size or not place.known:  # new; or somebody has cut it, or has written into it
                place.size, place.known = size, True
                self._write_down(job, part.worker, place)
            if part.offset > place.offset:
                self._leave_gap(job, part.worker, place, part.offset, file)
            if place.size + len(data) > self._longest:
                self._cut(job, part.worker, place, logs, file)
            self._write(place, file, data)
        finally:
            os.close(file)
        return place.offset

    def offsets(self, attempt: str) -> dict[str, int]:
        """How far each log of the attempt's job is: what a node is told when it comes back."""
        job = job_of(attempt)
        if job is None:
            return {}
        names = (path.stem for path in (self._layout.records(job) / _SHIPPED).glob("*.json"))
        return {name: self._place(job, name).offset for name in names if is_worker(name)}

    def forget(self, attempt: str) -> None:
        """Free the memory that an attempt's job takes; what is written down stays."""
        job = job_of(attempt)
        self._places = {key: place for key, place in self._places.items() if key[0] != job}

    def _place(self, job: str, worker: str) -> _Place:
        if (job, worker) not in self._places:
            budget = Budget(self._rate, self._burst, self._clock())
            size = size_of(self._layout.run(job) / LOGS / f"{worker}.log")
            known = read_json(self._file(job, worker))
            place = _Place(_offset(known or {}, size), size, budget, known is not None)
            if place.known:  # as far as it is known now, and no longer "between"
                self._write_down(job, worker, place)
            self._places[job, worker] = place
        return self._places[job, worker]

    def _leave_gap(self, job: str, worker: str, place: _Place, offset: int, file: int) -> None:
        line = gap_line(offset - place.offset)
        if place.size and os.pread(file, 1, place.size - 1) != b"\n":
            line = b"\n" + line
        self._write_down(job, worker, place, between=True)
        _write_all(file, line)
        place.offset, place.size = offset, os.fstat(file).st_size
        self._write_down(job, worker, place)

    def _cut(self, job: str, worker: str, place: _Place, logs: Path, file: int) -> None:
        self._write_down(job, worker, place, between=True)
        cut = set_aside(logs, f"{worker}.log", 0)
        place.size = os.fstat(file).st_size
        self._write_down(job, worker, place)
        if not cut:
            raise RefusedPartError(f"{logs / worker}.log is too long, and cannot be set aside")

    def _write(self, place: _Place, file: int, data: bytes) -> None:
        try:
            _write_all(file, data)
        finally:  # a full disk may take a part of it
            size = os.fstat(file).st_size
            written = max(0, size - place.size)
            place.offset, place.size = place.offset + written, size
            place.budget.take(written)

    def _write_down(self, job: str, worker: str, place: _Place, *, between: bool = False) -> None:
        path = self._file(job, worker)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_json(path, {"offset": place.offset, "size": None if between else place.size})

    def _file(self, job: str, worker: str) -> Path:
        return self._layout.records(job) / _SHIPPED / f"{worker}.json"


def _offset(known: dict[str, object], size: int) -> int:
    """The offset of a log's end, by what was written down and by its size."""
    offset, then = known.get("offset"), known.get("size")
    if not isinstance(offset, int):
        return 0
    return offset + max(0, size - then) if isinstance(then, int) else offset


def _open(logs: Path, worker: str) -> int:
    """A log, made if it is not there, for whoever owns its folder."""
    name = f"{worker}.log"
    try:
        folder = os.open(logs, _FOLDER)
    except OSError:
        raise RefusedPartError(f"there is no folder {logs} for a log of {worker}") from None
    try:
        try:
            file = os.open(name, _LOG | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
        except FileExistsError:
            file = os.open(name, _LOG, dir_fd=folder)
        else:
            owner = os.fstat(folder)
            if owner.st_uid != os.geteuid():
                os.fchown(file, owner.st_uid, owner.st_gid)
    except OSError as error:
        raise RefusedPartError(f"{logs / name} cannot be written: {error.strerror}") from None
    finally:
        os.close(folder)
    facts = os.fstat(file)
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:  # with a second name it may be anybody's
        os.close(file)
        raise RefusedPartError(f"{logs / name} is not a regular file")
    return file


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]
