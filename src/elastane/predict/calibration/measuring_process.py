"""Runs a measurement in a process of its own, forked from this one.

A training process starts with a fresh heap.  After many networks have been through a heap, large tensors cost other
numbers of page faults in it (a factor of 1.5 on whole steps was seen), so each network is measured where the user's
will run: in a new process.  A fork takes milliseconds where a start of Python with PyTorch takes seconds.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from elastane.errors import ElastaneError
from elastane.kit.tagged_json import Lines, Tagged, line_of


class Measured(Tagged, frozen=True, tag="measured"):
    """The measurement is done; JSON has to hold its result."""

    result: Any


class Broken(Tagged, frozen=True, tag="broken"):
    """The measurement raised an error, or its process died."""

    error: str


_FROM_CHILD: Lines[Measured | Broken] = Lines(Measured, Broken)


def in_child(work: Callable[[], Any]) -> Any:
    """Computes ``work`` in a child process; returns its result, which JSON has to hold, or raises its error.

    The caller must not have computed with several threads before: their pools do not survive a fork.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _answer(write, work)
    os.close(write)
    try:
        with os.fdopen(read, "rb") as pipe:
            data = pipe.read()
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    os.waitpid(pid, 0)
    answer = _FROM_CHILD.read(data) if data else Broken("it died, perhaps for want of memory")
    if isinstance(answer, Broken):
        raise ElastaneError(f"a measurement failed: {answer.error}")
    return answer.result


def _answer(write: int, work: Callable[[], Any]) -> None:
    """Writes the result and exits; it never returns, since the child must not go on with its parent's work."""
    try:
        try:
            answer: Measured | Broken = Measured(work())
        except Exception as error:
            answer = Broken(f"{type(error).__name__}: {error}")
        with os.fdopen(write, "wb") as pipe:
            pipe.write(line_of(answer).encode())
    finally:
        os._exit(0)
