"""A loader process: forked from the worker, reads the spans it is told, and remembers nothing between them.

It ends when its parent closes the socket or dies in whatever way.  Meanwhile it must not look like its parent
to anybody else: inherited sockets and pipes are let go, since a peer of a killed worker learns of the death by
the end of its connection; signals meant for the worker are ignored.
"""

from __future__ import annotations

import mmap
import os
import signal
import stat
import struct
import sys
import traceback
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray

from elastane.train.data import ipc
from elastane.train.data.keys import Purpose, key_of
from elastane.train.data.reader import Abandoned, Reader
from elastane.train.data.rng import seed_all
from elastane.train.errors import TrainError


@dataclass(frozen=True, slots=True)
class Task:
    """Read these samples, which stand at ``start`` and after it in this pass."""

    ticket: int
    pass_index: int
    start: int
    indices: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of a task: a batch, an error, or neither when nobody wanted it any more."""

    ticket: int
    batch: Any = None
    error: str | None = None
    trace: str = ""


class Floor:
    """The lowest ticket that is still wanted, in memory shared with the child: a way to say "never mind"."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8)

    def raise_to(self, ticket: int) -> None:
        """Tickets below this one need not be worked on."""
        struct.pack_into("<q", self._memory, 0, ticket)

    def above(self, ticket: int) -> bool:
        """Whether this ticket is no longer wanted."""
        return bool(struct.unpack_from("<q", self._memory)[0] > ticket)


def fork_child(reader: Reader) -> tuple[int, Connection, Floor]:
    """Start a loader process; returns its process id, the parent's end of the socket, and its floor."""
    ours, theirs = Pipe()
    floor = Floor()
    sys.stdout.flush()
    sys.stderr.flush()
    # No handler of the parent may run in the child before it has got rid of them.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        process = os.fork()
        if process == 0:
            _live(reader, theirs, floor, blocked)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    theirs.close()
    return process, ours, floor


def _live(reader: Reader, link: Connection, floor: Floor, blocked: set[Any]) -> NoReturn:
    status = 1
    try:
        _leave_home(link.fileno())
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        _serve(reader, link, floor)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Exit handlers and destructors belong to the parent.
        os._exit(status)


def _leave_home(link: int) -> None:
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)) or number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
    _let_go_of_connections(keep=link)
    # The parent's thread pool does not exist here, and several loader processes would fight for the cores.
    torch.set_num_threads(1)


def _let_go_of_connections(keep: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for entry in list(Path("/dev/fd").iterdir()):
        descriptor = int(entry.name)
        try:
            mode = os.fstat(descriptor).st_mode
        except OSError:
            continue
        if descriptor > 2 and descriptor != keep and (stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode)):
            # Not closed: an object that still believes to own the number must not close somebody else's file.
            os.dup2(nothing, descriptor, inheritable=False)


def _serve(reader: Reader, link: Connection, floor: Floor) -> None:
    while True:
        try:
            task: Task = ipc.receive(link)
            ipc.send(link, _answer(reader, task, floor))
        except ConnectionError:
            return


def _answer(reader: Reader, task: Task, floor: Floor) -> ipc.Parts:
    # Forked processes would otherwise all draw the same "random" numbers.
    seed_all(key_of(Purpose.BATCH, reader.seed, task.pass_index, task.start))
    try:
        batch = reader.read(task.pass_index, task.start, task.indices, lambda: floor.above(task.ticket))
        return ipc.pack(Reply(task.ticket, batch))
    except Abandoned:
        return ipc.pack(Reply(task.ticket))
    except TrainError as error:
        return ipc.pack(Reply(task.ticket, error=str(error), trace=traceback.format_exc()))
    except Exception as error:
        message = f"loader '{reader.name}': a batch cannot be sent by a loader process: {error!r}"
        return ipc.pack(Reply(task.ticket, error=message, trace=traceback.format_exc()))
