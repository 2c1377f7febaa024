"""Runs a measurement in a process of its own, forked from this one.

A training process starts with a fresh heap.  After many networks have been through a heap, large tensors cost other
numbers of page faults in it (a factor of 1.5 on whole steps was seen), so each network is measured where the user's
will run: in a new process.  A fork takes milliseconds where a start of Python with PyTorch takes seconds.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

from elastane.errors import ElastaneError


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
    document = json.loads(data) if data else {"error": "it died, perhaps for want of memory"}
    if "error" in document:
        raise ElastaneError(f"a measurement failed: {document['error']}")
    return document["result"]


def _answer(write: int, work: Callable[[], Any]) -> None:
    """Writes the result and exits; it never returns, since the child must not go on with its parent's work."""
    try:
        try:
            document = {"result": work()}
        except Exception as error:
            document = {"error": f"{type(error).__name__}: {error}"}
        with os.fdopen(write, "wb") as pipe:
            pipe.write(json.dumps(document).encode())
    finally:
        os._exit(0)
