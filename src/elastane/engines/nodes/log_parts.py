"""Defines what is said of workers' logs between a node and the head: parts with their places, and what the head has.

A place is an offset in all that the worker has ever written, also where a file was cut since.
"""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta

from elastane.train.coordinator.wire import Message

PART_BYTES = 48 << 10
"""Data in one part that we send: a line of 64 KiB, written as JSON."""
RATE_BYTES = 1_000_000
"""Of one worker's log, each second."""
Offset = Annotated[int, Meta(ge=0, le=2**53)]
_ATTEMPT = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,99})\.([1-9][0-9]{0,8})", re.ASCII)
_WORKER = re.compile(r"w[1-9][0-9]{0,6}", re.ASCII)


class LogPart(Message, frozen=True, tag="log"):
    """Bytes of a worker's log, and at which offset they begin."""

    attempt: str
    worker: str
    offset: Offset
    data: bytes


class LogOffsets(Message, frozen=True, tag="log offsets"):
    """How far the head has the log of each worker of an attempt's job."""

    attempt: str
    offsets: dict[str, Offset]


def job_of(attempt: str) -> str | None:
    """The job of an attempt, by its name; None for what is no name of one."""
    match = _ATTEMPT.fullmatch(attempt)
    return match[1] if match else None


def is_worker(name: str) -> bool:
    """Whether this is a name that workers are given."""
    return _WORKER.fullmatch(name) is not None


class Budget:
    """Bytes that may pass: ``rate`` each second, ``burst`` at once after a rest."""

    def __init__(self, rate: float, burst: float, now_s: float) -> None:
        self._rate, self._burst, self._left, self._at_s = rate, burst, burst, now_s

    def left(self, now_s: float) -> int:
        """How many may pass now."""
        rest_s, self._at_s = max(0.0, now_s - self._at_s), now_s
        self._left = min(self._burst, self._left + rest_s * self._rate)
        return int(self._left)

    def take(self, count: int) -> None:
        """So many have passed."""
        self._left -= count
