"""The loader processes of one source: hands out spans, keeps what was read ahead, ends them all.

Used by one thread.  At most two batches per process are read ahead; what is no longer expected is dropped.
A pool that was inherited through a fork belongs to the parent and starts processes of its own when used.
"""

from __future__ import annotations

import os
import signal
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from elastane.train.data import ipc
from elastane.train.data.loader_process import Floor, Reply, Task, fork_child
from elastane.train.data.order import PassOrder
from elastane.train.data.reader import Reader
from elastane.train.errors import TrainError

AHEAD = 2
"""Batches each process may be asked for before they are needed: one being read, one waiting."""

GRACE_S = 2.0
"""A process in the middle of a sample gets this long to finish it before it is killed."""

_NEVER = 2**63 - 1


class LoaderTraceback(Exception):
    """The traceback of an error inside a loader process, for the reader of the log."""


@dataclass(frozen=True, slots=True)
class Span:
    """Some consecutive positions of a pass."""

    pass_index: int
    start: int
    count: int


@dataclass(slots=True)
class _Process:
    pid: int
    link: Connection
    floor: Floor
    tasks: dict[int, Span] = field(default_factory=dict)


class Pool:
    """Reads spans in ``processes`` loader processes, which start with the first use."""

    def __init__(self, reader: Reader, processes: int, order: PassOrder) -> None:
        self._reader = reader
        self._size = processes
        self._order = order
        self._processes: list[_Process] = []
        self._expected: list[Span] = []
        self._coming: dict[Span, int] = {}
        self._ready: dict[Span, Reply] = {}
        self._tickets = 0
        weakref.finalize(self, _end_all, self._processes)
        _pools.add(self)

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids of the loader processes that run now."""
        return tuple(process.pid for process in self._processes)

    def expect(self, spans: Sequence[Span]) -> None:
        """Read these ahead, in this order, as far as the processes have time; everything else is dropped."""
        self._start()
        self._expected = list(spans)
        wanted = set(spans)
        self._coming = {span: ticket for span, ticket in self._coming.items() if span in wanted}
        self._ready = {span: reply for span, reply in self._ready.items() if span in wanted}
        self._lift_floors()
        while self._collect(timeout=0.0):
            pass
        self._hand_out()

    def fetch(self, span: Span) -> Any:
        """The batch of this span, read ahead or not."""
        self._start()
        if span not in self._ready and span not in self._coming:
            self._submit(span)
        while span not in self._ready:
            self._collect(timeout=None)
        reply = self._ready.pop(span)
        self._expected = [other for other in self._expected if other != span]
        self._hand_out()
        if reply.error is not None:
            raise TrainError(reply.error) from LoaderTraceback(reply.trace)
        return reply.batch

    def close(self) -> None:
        """End the processes; the next use would start new ones."""
        _end_all(self._processes)
        self._forget()

    def disown(self) -> None:
        """In a forked child: the processes are the parent's; let go of them without a word."""
        for process in self._processes:
            process.link.close()
        self._processes.clear()
        self._forget()

    def _forget(self) -> None:
        self._expected, self._coming, self._ready = [], {}, {}

    def _start(self) -> None:
        while len(self._processes) < self._size:
            self._processes.append(_Process(*fork_child(self._reader)))

    def _hand_out(self) -> None:
        for span in self._expected:
            if len(self._coming) + len(self._ready) >= AHEAD * self._size:
                return
            if span not in self._coming and span not in self._ready:
                self._submit(span)

    def _submit(self, span: Span) -> None:
        process = min(self._processes, key=lambda process: len(process.tasks))
        indices = self._order.indices(span.pass_index, span.start, span.count)
        task = Task(self._tickets, span.pass_index, span.start, indices)
        self._tickets += 1
        try:
            ipc.send(process.link, ipc.pack(task))
        except ConnectionError:
            raise self._lost(process) from None
        process.tasks[task.ticket] = span
        self._coming[span] = task.ticket

    def _lift_floors(self) -> None:
        wanted = set(self._coming.values())
        for process in self._processes:
            process.floor.raise_to(min(wanted & process.tasks.keys(), default=self._tickets))

    def _collect(self, timeout: float | None) -> bool:
        """Take in one reply of each process that has one; False if none had."""
        ready = wait([process.link for process in self._processes], timeout)
        for process in [process for process in self._processes if process.link in ready]:
            try:
                self._take(process, ipc.receive(process.link))
            except ConnectionError:
                raise self._lost(process) from None
        return bool(ready)

    def _take(self, process: _Process, reply: Reply) -> None:
        span = process.tasks.pop(reply.ticket)
        if self._coming.get(span) == reply.ticket:
            del self._coming[span]
            self._ready[span] = reply

    def _lost(self, process: _Process) -> TrainError:
        how = _ending(process.pid)
        self._processes.remove(process)
        self.close()
        return TrainError(
            f"loader '{self._reader.name}': a loader process {how}; is the machine out of memory?"
        )


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _disown_all() -> None:
    for pool in list(_pools):
        pool.disown()


# Any forked process would keep the sockets open, and loader processes would outlive a killed parent.
os.register_at_fork(after_in_child=_disown_all)


def _end_all(processes: list[_Process]) -> None:
    for process in processes:
        process.floor.raise_to(_NEVER)
        process.link.close()
    deadline = time.monotonic() + GRACE_S
    for process in processes:
        while not _gone(process.pid):
            if time.monotonic() > deadline:
                os.kill(process.pid, signal.SIGKILL)
            time.sleep(0.002)
    processes.clear()


def _gone(pid: int) -> bool:
    """Whether a child has ended (and reap it); while it has not, its process id cannot be anybody else's."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _ending(pid: int) -> str:
    """How a child ended that has closed its socket."""
    try:
        # One that closed it by accident and lives on is of no use; for a dead one this changes nothing.
        os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except (ChildProcessError, ProcessLookupError):
        return "died"
    return f"was killed by signal {-code}" if code < 0 else f"exited with status {code}"
