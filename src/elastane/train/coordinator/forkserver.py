"""The parent of workers: it has imported PyTorch already and forks, so that a worker starts in milliseconds.

It stays single-threaded for life (a fork copies only one thread, and locks held by others stay locked), does
no tensor work, and lives in a session of its own, so that neither Ctrl-C nor the end of the coordinator
reaches it.  It starts, watches and kills workers; what they do is not its business.  If a module of ``--preload``
has touched a device or started a thread, it starts workers cold, and says which module that was.

A fork server that cannot import what workers need tells the coordinator why (``problem`` in its hello) and ends.  The
supervisor then fails the job with that sentence, so no engine needs to watch fork servers for it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import sys
import time
from typing import Any

from elastane.train.coordinator import exit_note, script_runner
from elastane.train.coordinator.fork_safety import what_forbids_forking
from elastane.train.coordinator.job_user import TO_SPARE, become_told
from elastane.train.coordinator.kernel_kills import KernelKills
from elastane.train.coordinator.leases import BEAT_S
from elastane.train.coordinator.login import connect
from elastane.train.coordinator.messages import (
    TO_FORK_SERVER,
    Exited,
    ForkServerBeat,
    ForkServerHello,
    FromForkServer,
    SendSignal,
    Spawn,
    Started,
    StopForkServer,
    ToForkServer,
)
from elastane.train.coordinator.relocation import Relocation, port_there
from elastane.train.coordinator.snapshot_memory import offer
from elastane.train.coordinator.wire import Connection, address

ENDPOINT, TOKEN, NODE = "ELASTANE_COORDINATOR", "ELASTANE_JOB_TOKEN", "ELASTANE_NODE"
HOST = "ELASTANE_HOST"
"""The address at which others reach this node; if nobody says, that of the way to the coordinator."""
PRELOAD = "ELASTANE_PRELOAD"
LEASHED = "ELASTANE_LEASHED"
"""Set, to the process id of its parent, for a fork server that must not outlive it.  Workers never outlive theirs."""
WAITING = "ELASTANE_WAITING"
"""Set for a fork server that learns whom to serve once it is warm: by a line (``Become``) on its standard input."""
_ASK_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"
"""Has ``torch.cuda.is_available()`` ask the management library, which initialises nothing."""
ORPHAN_PATIENCE_S = 60.0
"""How long a fork server without children waits for a new coordinator."""


def warm_up(modules: list[str]) -> str:
    """Import what every worker would import; why workers have to start cold all the same, or nothing.

    Building one optimizer pulls in most of PyTorch's lazy parts.  The process that does this becomes workers: the one
    place of this package where PyTorch and the worker's side may be imported (``tests/test_architecture.py``).
    """
    os.environ.setdefault(_ASK_NVML, "1")
    import torch.distributed

    torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])
    import elastane.train.script.api  # noqa: F401

    problem = _cold_by("importing PyTorch", what_forbids_forking())
    for module in modules:
        importlib.import_module(module)
        problem = problem or _cold_by(f"the module {module!r} of --preload", what_forbids_forking())
    return problem


def _cold_by(who: str, deed: str) -> str:
    return f"{who} {deed}: workers start cold (about 10 s instead of 0.1 s)" if deed else ""


def lacking(error: ImportError) -> str:
    """Why workers cannot be started here, in one line."""
    if error.name == "torch":
        remedy = f"{sys.executable} -m pip install 'elastane[torch]'"
        return f"{sys.executable} has no PyTorch; install it with: {remedy}"
    return f"{sys.executable} cannot import what workers need: {error}"


def report(problem: str) -> None:
    """Tell the coordinator that no worker can be started here."""
    print(f"elastane: error: {problem}", file=sys.stderr)  # noqa: T201
    with contextlib.suppress(OSError):
        connection = _call(address(os.environ[ENDPOINT]), os.environ[TOKEN])
        node = os.environ.get(NODE, "local")
        connection.send(ForkServerHello(node, problem=problem))
        connection.close()


def _call(endpoint: tuple[str, int], token: str) -> Connection:
    return connect(*endpoint, "nursery", token, known_as=port_there(os.environ, endpoint[1]))


class ForkServer:
    """Serves one coordinator at a time; reconnects when it is replaced."""

    def __init__(self, cold: str = "") -> None:
        """``cold``: why workers are not forked, if so."""
        self._cold = cold
        self._endpoint = address(os.environ[ENDPOINT])
        self._token = os.environ[TOKEN]
        self._node = os.environ.get(NODE, "local")
        self._relocation = Relocation.of(os.environ)
        self._children: dict[int, str] = {}
        self._notes: dict[int, int] = {}
        """By process, the end of a pipe from which its exit note is read."""
        self._kernel_kills = KernelKills()
        self._unsent: list[FromForkServer] = []
        self._connection: Connection | None = None
        self._pending = b""
        self._beat_s = 0.0
        self._wake, self._alarm = os.pipe()
        os.set_blocking(self._alarm, False)
        os.set_blocking(self._wake, False)

    def serve(self) -> None:
        """Until the coordinator says stop, or there is nobody left to serve."""
        signal.set_wakeup_fd(self._alarm)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        idle_since = time.monotonic()
        while True:
            if self._connection is None and not self._connect():
                if not self._children and time.monotonic() - idle_since > ORPHAN_PATIENCE_S:
                    return
            else:
                idle_since = time.monotonic()
            if not self._wait():
                return

    def _connect(self) -> bool:
        try:
            self._connection = _call(self._endpoint, self._token)
            # Workers inherit it: their groups must not depend on what a host name resolves to.
            os.environ[HOST] = os.environ.get(HOST) or self._connection.own_address
            pids = {name: pid for pid, name in self._children.items()}
            hello = ForkServerHello(self._node, os.environ[HOST], pids, beats=True, note=self._cold)
            self._connection.send(hello)
        except OSError:
            self._connection = None
            return False
        self._pending = b""
        unsent, self._unsent = self._unsent, []
        for message in unsent:
            self._tell(message)
        return True

    def _tell(self, message: FromForkServer) -> None:
        try:
            if self._connection is None:
                raise OSError
            self._connection.send(message)
        except OSError:
            self._connection = None
            if not isinstance(message, ForkServerBeat):
                self._unsent.append(message)

    def _beat(self) -> float:
        """A sign of life when it is due; returns when the next one is.

        It comes from the loop that does the work: one that hangs must not say that all is well.
        """
        now_s = time.monotonic()
        if now_s - self._beat_s >= BEAT_S:
            self._beat_s = now_s
            if self._connection is not None:
                self._tell(ForkServerBeat())
        return self._beat_s + BEAT_S - now_s

    def _wait(self) -> bool:
        wait_s = self._beat()
        sources: list[Any] = [self._wake]
        if self._connection is not None:
            sources.append(self._connection)
        readable, _, _ = select.select(sources, [], [], wait_s)
        if self._wake in readable:
            os.read(self._wake, 4096)
        self._reap()
        if self._connection is not None and self._connection in readable:
            return self._read()
        return True

    def _read(self) -> bool:
        assert self._connection is not None
        try:
            data = os.read(self._connection.fileno(), 1 << 16)
        except OSError:
            data = b""
        if not data:
            self._connection = None
            return True
        *lines, self._pending = (self._pending + data).split(b"\n")
        return all(map(self._obey, TO_FORK_SERVER.decode_known(lines)))

    def _obey(self, message: ToForkServer) -> bool:
        """Whether to go on after that."""
        match message:
            case Spawn(order):
                pid = self._start(self._relocation.order(order))
                self._children[pid] = order.worker
                self._tell(Started(order.worker, pid))
            case SendSignal(worker, number):
                for pid, name in self._children.items():
                    if name == worker:
                        _signal(pid, number)
            case StopForkServer():
                self._kill_all()
                return False
        return True

    def _start(self, order: script_runner.Order) -> int:
        reading, writing = os.pipe()
        cold = self._cold or what_forbids_forking()
        pid = script_runner.start_cold(order, writing) if cold else self._fork(order, writing)
        os.close(writing)
        self._notes[pid] = reading
        return pid

    def _fork(self, order: script_runner.Order, note: int) -> int:
        parent, pid = os.getpid(), os.fork()
        if pid:
            with contextlib.suppress(OSError):  # both sides, so that it is done for whoever looks first
                os.setpgid(pid, pid)
            return pid
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        script_runner.die_with(parent)
        signal.set_wakeup_fd(-1)
        for name in (signal.SIGCHLD, signal.SIGINT):
            signal.signal(name, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for fd in (self._wake, self._alarm, self._connection.fileno() if self._connection else -1):
            if fd >= 0:
                os.close(fd)
        for fd in self._notes.values():
            os.close(fd)
        exit_note.write_to(note)
        script_runner.run(order)
        raise AssertionError("a worker came back")

    def _reap(self) -> None:
        while True:  # orphans of workers, too
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            worker = self._children.pop(pid, None)
            if worker is not None:
                code = os.waitstatus_to_exitcode(status)
                no_memory = exit_note.read_note(self._notes.pop(pid))
                no_memory = no_memory or (code == -signal.SIGKILL and self._kernel_kills.took())
                self._tell(Exited(worker, code, no_memory))

    def _kill_all(self) -> None:
        for pid in self._children:
            _signal(pid, signal.SIGKILL)
        for pid in self._children:
            os.waitpid(pid, 0)


def _signal(pid: int, number: int) -> None:
    """To a worker and whatever it has started."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        os.kill(pid, number)


def main() -> None:
    """The process: warm up, then serve."""
    if LEASHED in os.environ:
        script_runner.die_with(int(os.environ[LEASHED]))
    problem = cold = ""
    try:
        cold = warm_up([name for name in os.environ.get(PRELOAD, "").split(",") if name])
    except ImportError as error:
        problem = lacking(error)
    if cold:
        print(f"elastane: warning: {cold}", file=sys.stderr)  # noqa: T201
    if os.environ.pop(WAITING, ""):
        line = sys.stdin.buffer.readline()
        if not line:
            return
        if become_told(TO_SPARE.decode(line), os.environ) and LEASHED in os.environ:
            script_runner.die_with(int(os.environ[LEASHED]))  # a new user is on nobody's leash
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if problem:
        report(problem)
        os._exit(1)
    offer(os.environ)
    ForkServer(cold).serve()
    os._exit(0)  # the end of the connection means the end of the process, to whoever waits for it


if __name__ == "__main__":
    main()
