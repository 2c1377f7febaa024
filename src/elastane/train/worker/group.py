"""One generation's process group: built in the background, killed in milliseconds, never waited for.

PyTorch's gloo groups cannot be aborted by their own means, and only the ring neighbours of a dead member
notice.  ``kill`` shuts the group's connected sockets down, which ends a blocked collective at once and tells
the neighbours.  The group is built without any store server: members exchange one short address each, through
whatever ``Exchange`` they are given.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import re
import socket
import struct
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import AllgatherOptions, AllToAllOptions, BroadcastOptions, Store

from elastane.train.errors import MembershipChanged

COLLECTIVE_S = 600.0
"""Never the detector of a failure, only a last resort."""
BUILD_S = 30.0
_LOOK_UP = timedelta(seconds=0.5)
"""A wait inside gloo keeps Python's signal handlers from running; it is taken up again so often."""
_SOURCE = re.compile(r"\[/\S+:\d+\] ?")
"""The line of its own source that gloo puts into its errors."""


class Exchange(Protocol):
    """How members of one generation learn each other's addresses."""

    def put(self, rank: int, data: bytes) -> None:
        """Publish this member's address."""
        ...

    def get(self, rank: int, timeout_s: float) -> bytes:
        """Wait for another's; raises MembershipChanged when it will not come."""
        ...


class _ExchangeStore(Store):
    """What gloo takes for a store: keys end in the rank whose address they hold.

    It remembers these addresses, which tell the group's sockets from all others of the process.
    """

    def __init__(self, exchange: Exchange, timeout_s: float) -> None:
        super().__init__()
        self._exchange = exchange
        self._timeout_s = timeout_s
        self._own: dict[str, bytes] = {}
        self._others: dict[str, bytes] = {}

    def set(self, key: str, value: Any) -> None:
        self._own[key] = bytes(value)
        self._exchange.put(_rank(key), bytes(value))

    def get(self, key: str) -> bytes:
        if key in self._own:
            return self._own[key]
        self._others[key] = told = self._exchange.get(_rank(key), self._timeout_s)
        return told

    def wait(self, keys: list[str], _timeout: timedelta | None = None) -> None:
        for key in keys:
            self.get(key)

    def has_extended_api(self) -> bool:
        return False

    def sockets(self) -> dict[int, str]:
        """This group's connections: those that its listener has accepted, and those to the listeners of others.

        What else was opened meanwhile, by another group that is being connected, say, is none of them.
        """
        own, others = b"".join(self._own.values()), b"".join(self._others.values())
        found = {}
        for fd, inode in _sockets().items():
            here, there = _ends(fd)
            if (here and here in own) or (there and there in others):
                found[fd] = inode
        return found


def _options(timeout_s: float, host: str) -> Any:
    gloo: Any = dist.ProcessGroupGloo  # what is private here has no public name, nor a type
    options = gloo._Options()
    options._timeout = timedelta(seconds=timeout_s)
    options._devices = [gloo.create_device(hostname=host) if host else gloo.create_default_device()]
    options._threads = 2
    return options


def _rank(key: str) -> int:
    return int(key.rpartition("/")[2])


def _sockets() -> dict[int, str]:
    """Inode name of every socket this process has open."""
    found = {}
    for fd in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
            if target.startswith("socket:"):
                found[int(fd)] = target
    return found


def _ends(fd: int) -> tuple[bytes, bytes]:
    """Both addresses of a connection, as the system writes them and gloo tells them; nothing for other sockets."""
    try:
        with socket.socket(fileno=os.dup(fd)) as copy:
            return _written(copy.family, copy.getsockname()), _written(copy.family, copy.getpeername())
    except OSError:
        return b"", b""


def _written(family: int, address: Any) -> bytes:
    """The beginning of a ``sockaddr_in`` or ``sockaddr_in6``."""
    if family not in (socket.AF_INET, socket.AF_INET6):
        return b""
    host, port = address[0].partition("%")[0], address[1]
    between = struct.pack("!I", address[2]) if family == socket.AF_INET6 else b""
    return struct.pack("=H", family) + struct.pack("!H", port) + between + socket.inet_pton(family, host)


class Started:
    """A collective of gloo under way in its own threads."""

    def __init__(self, work: Any, problem: str) -> None:
        self._work = work
        self._problem = problem

    def finish(self) -> None:
        """Wait for it; raises MembershipChanged if the group has broken."""
        work, self._work = self._work, None
        if not self._problem and work is not None:
            try:
                while not work.is_completed():
                    with contextlib.suppress(RuntimeError):  # told again below, unless it is that time is up
                        work.wait(_LOOK_UP)
                work.wait()
            except RuntimeError as error:
                self._problem = str(error) or "broken"
        # Raised outside the handler: its traceback would keep the group alive, and its sockets open.
        if self._problem:
            raise MembershipChanged(self._problem.splitlines()[0])


class Group:
    """A connected group; ``Collective`` for reducers."""

    def __init__(
        self, rank: int, world: int, exchange: Exchange, timeout_s: float = BUILD_S, host: str = ""
    ) -> None:
        """``host`` is the address to listen on and to tell others; else what the host's name resolves to."""
        self.rank = rank
        self.world = world
        self._store = _ExchangeStore(exchange, timeout_s)
        try:
            self._backend: Any = dist.ProcessGroupGloo(self._store, rank, world, _options(timeout_s, host))
        except RuntimeError as error:
            told = _SOURCE.sub("", (str(error) or "no reason given").splitlines()[0])
            raise MembershipChanged(f"the group could not be connected: {told}") from None
        self._backend._set_default_timeout(timedelta(seconds=COLLECTIVE_S))
        self._fds = self._store.sockets()
        self._killed = False
        self._kill_lock = threading.Lock()

    def all_reduce(self, tensor: Tensor) -> None:
        """Sum over all members, in place."""
        self._finish(lambda: self._backend.allreduce([tensor]))

    def start_all_reduce(self, tensor: Tensor) -> Started:
        """Begin to sum over all members, in place; several may be under way, in the order in which they began."""
        return self._start(lambda: self._backend.allreduce([tensor]))

    def all_gather(self, output: Tensor, tensor: Tensor) -> None:
        """The members' tensors, one after the other."""
        self._finish(lambda: self._backend._allgather_base(output, tensor, AllgatherOptions()))

    def all_to_all(
        self, output: Tensor, tensor: Tensor, output_splits: Sequence[int], input_splits: Sequence[int]
    ) -> None:
        """Part r of ``tensor`` goes to rank r."""
        self._finish(
            lambda: self._backend.alltoall_base(
                output, tensor, list(output_splits), list(input_splits), AllToAllOptions()
            )
        )

    def broadcast(self, tensor: Tensor, root: int) -> None:
        """``tensor`` becomes the root's, in place."""
        options = BroadcastOptions()
        options.rootRank, options.rootTensor = root, 0
        self._finish(lambda: self._backend.broadcast([tensor], options))

    def broadcast_bytes(self, data: bytes | None, root: int) -> bytes:
        """The root's bytes, everywhere."""
        size = torch.tensor([len(data) if data is not None else 0], dtype=torch.int64)
        self.broadcast(size, root)
        body = torch.empty(int(size), dtype=torch.uint8)
        if self.rank == root and data:
            body = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        if int(size):
            self.broadcast(body, root)
        return bytes(body.numpy())

    def _finish(self, issue: Any) -> None:
        self._start(issue).finish()

    def _start(self, issue: Any) -> Started:
        work, problem = None, "the group is over" if self._killed else ""
        try:
            work = None if problem else issue()
        except RuntimeError as error:
            problem = str(error) or "broken"
        return Started(work, problem)

    def kill(self) -> None:
        """End any collective that is under way, here and at the neighbours; harmless to repeat."""
        with self._kill_lock:
            if self._killed:
                return
            self._killed = True
            now = _sockets()
            for fd, inode in self._fds.items():
                if now.get(fd) == inode:
                    _shut(fd)

    def retire(self) -> None:
        """Hand the group to the reaper: its destructor may have to wait for a peer."""
        _reaper.put(self)


def _shut(fd: int) -> None:
    """End a connected socket; a listening one must be left alone (gloo would abort the process)."""
    try:
        copy = socket.socket(fileno=os.dup(fd))
    except OSError:
        return
    with contextlib.suppress(OSError), copy:
        copy.getpeername()
        copy.shutdown(socket.SHUT_RDWR)


class _Reaper:
    """A thread that lets go of retired groups, and is waited for when the process ends.

    An interpreter that shuts down ends other threads where they next touch Python; inside a group's destructor
    that is not allowed, and the whole process would abort.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Group | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, group: Group) -> None:
        self._queue.put(group)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="group-reaper", daemon=True)
            self._thread.start()
            atexit.register(self._finish, self._thread)

    def _run(self) -> None:
        while (group := self._queue.get()) is not None:
            del group

    def _finish(self, thread: threading.Thread) -> None:
        self._queue.put(None)
        thread.join(BUILD_S)


_reaper = _Reaper()
