"""Makes hosts in a box: each has a network, process ids, mounts, shared memory and a host name of its own.

They hang on a switch that is a namespace as well, so nothing is left in the machine's own network, and no packet leaves
the box.  Every namespace lives as long as one process of ours does: when the box is closed, or its maker is killed, the
kernel takes the hosts down with all that runs on them.  It needs root and the commands of iproute2 and util-linux.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from elastane.errors import ElastaneError

_INIT = """
import contextlib, os, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
print("here", flush=True)
while True:
    signal.sigwait([signal.SIGCHLD])
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
"""
"""What runs as process 1 of a host: it does nothing but reap orphans."""
_NAMESPACES = ("--net", "--mount", "--pid", "--uts", "--ipc")
_LEASHED = ("--fork", "--kill-child", "--mount-proc")
_NETWORK = "10.77.0"
_NETWORK_NAMESPACE = 0x40000000
_DEADLINE_S = 20.0
_LOOK_S = 0.01


@cache
def why_not() -> str:
    """Tells why this process cannot make hosts, in one sentence; empty if it can."""
    missing = [name for name in ("ip", "unshare", "nsenter", "mount") if shutil.which(name) is None]
    if missing:
        return f"hosts in a box need the command {missing[0]!r} (Debian: apt-get install iproute2 util-linux mount)"
    if os.geteuid() != 0:
        return "hosts in a box need root, who may make network namespaces: try again with sudo"
    with contextlib.suppress(OSError):
        tried = subprocess.run(
            ["unshare", "--net", "--pid", "--fork", "ip", "link", "add", "name", "el", "type", "bridge"],  # noqa: S607
            capture_output=True,
            check=False,
        )
        if tried.returncode == 0:
            return ""
    return "hosts in a box need network namespaces and bridges, which this system does not let root make"


class Host:
    """One machine of a box."""

    def __init__(self, box: Box, number: int) -> None:
        self.number = number
        self.name = f"host{number}"
        self.address = f"{_NETWORK}.{10 + number}"
        self._box = box
        self._holder: subprocess.Popen[str] | None = None
        self._init = 0

    @property
    def alive(self) -> bool:
        """Whether the host is switched on."""
        return self._holder is not None

    def boot(self) -> None:
        """Switches the host on and plugs its cable in; afterwards it answers at its address."""
        assert self._holder is None
        self._holder = subprocess.Popen(  # noqa: S603
            ["unshare", *_NAMESPACES, *_LEASHED, sys.executable, "-S", "-c", _INIT],  # noqa: S607
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # it complains when its child is killed
            text=True,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        assert self._holder.stdout is not None
        self._holder.stdout.readline()  # its process 1 is there
        self._init = _only_child(self._holder.pid)
        port, box = self._port, self._box
        box.on_switch(
            "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(self._init)
        )
        box.on_switch("ip", "link", "set", port, "master", "switch", "up")
        self.do("hostname", self.name)
        self.do("ip", "link", "set", "lo", "up")
        self.do("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.do("ip", "link", "set", "eth0", "up")
        self.do("ip", "route", "add", "default", "via", f"{_NETWORK}.1")
        self.do("mount", "--bind", str(box.hosts_file), "/etc/hosts")
        self.do("mount", "-t", "tmpfs", "tmpfs", "/dev/shm")  # noqa: S108

    def start(
        self,
        *words: str,
        environment: Mapping[str, str] | None = None,
        output: IO[Any] | int = subprocess.DEVNULL,
        directory: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Starts a program on the host; it ends with the host, and with us."""
        return subprocess.Popen(  # noqa: S603
            [*self._enter(directory), *words],
            env=dict(environment) if environment is not None else None,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def do(self, *words: str) -> str:
        """Runs a short program on the host to its end and returns what it printed.

        Raises:
            ElastaneError: it failed.
        """
        return _done([*self._enter(None), *words])

    def private(self, folder: Path) -> None:
        """Puts a disk of the host's own in place of a folder, so that no other host sees what is written there."""
        folder.mkdir(parents=True, exist_ok=True)
        self.do("mount", "-t", "tmpfs", "tmpfs", str(folder))

    def cut(self) -> None:
        """Pulls the network cable: packets are lost in both directions, and nobody is told."""
        self._box.on_switch("ip", "link", "set", self._port, "down")

    def mend(self) -> None:
        """Plugs the network cable in again."""
        self._box.on_switch("ip", "link", "set", self._port, "up")

    @contextlib.contextmanager
    def network(self) -> Iterator[None]:
        """Has this thread use the host's network, so that it reaches what listens on the host's loopback."""
        with Path("/proc/thread-self/ns/net").open() as own, Path(f"/proc/{self._init}/ns/net").open() as there:
            _enter_network(there.fileno())
            try:
                yield
            finally:
                _enter_network(own.fileno())

    def kill(self, *, silently: bool = True) -> None:
        """Ends every process on the host at once.

        Silently, as if its power failed: no connection is closed in an orderly way.  Otherwise as if all its processes
        were killed: the kernel still tells the others that they are gone.
        """
        holder, self._holder = self._holder, None
        if holder is None:
            return
        if silently:
            with contextlib.suppress(ElastaneError):  # first the cable: a host without power says no goodbye
                self.cut()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._init, signal.SIGKILL)
        holder.wait(_DEADLINE_S)
        if holder.stdout is not None:
            holder.stdout.close()
        with contextlib.suppress(ElastaneError):
            self._box.on_switch("ip", "link", "delete", self._port)

    def processes(self) -> list[int]:
        """Returns the ids of all processes of the host, as the machine outside sees them, without process 1."""
        if self._holder is None:
            return []
        mine = _namespace(self._init)
        pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
        return sorted(pid for pid in pids if pid != self._init and _namespace(pid) == mine)

    @property
    def _port(self) -> str:
        """The switch's end of its cable."""
        return f"port{self.number}"

    def _enter(self, directory: Path | None) -> list[str]:
        if self._holder is None:
            raise ElastaneError(f"{self.name} is switched off")
        place = [f"--wd={directory}"] if directory is not None else []
        return [
            "nsenter",
            f"--target={self._init}",
            "--net",
            "--mount",
            "--pid",
            "--uts",
            "--ipc",
            *place,
            "--",
        ]


class Box:
    """Some hosts on one switch; as a context manager it leaves nothing behind."""

    def __init__(self, folder: Path, hosts: int = 3) -> None:
        """``folder`` takes a few small files; the hosts are made when the box is opened.

        Raises:
            ElastaneError: this process cannot make hosts.
        """
        problem = why_not()
        if problem:
            raise ElastaneError(problem)
        self.hosts_file = folder / "hosts"
        self.hosts = [Host(self, number) for number in range(hosts)]
        self._switch: subprocess.Popen[str] | None = None

    def __enter__(self) -> Box:
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> None:
        names = "".join(f"{host.address} {host.name}\n" for host in self.hosts)
        self.hosts_file.write_text(f"127.0.0.1 localhost\n{names}")
        self._switch = subprocess.Popen(  # noqa: S603
            ["unshare", "--net", sys.executable, "-S", "-c", _INIT],  # noqa: S607
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        assert self._switch.stdout is not None
        self._switch.stdout.readline()
        self.on_switch("ip", "link", "add", "switch", "type", "bridge")
        self.on_switch("ip", "address", "add", f"{_NETWORK}.1/24", "dev", "switch")
        self.on_switch("ip", "link", "set", "switch", "up")
        for host in self.hosts:
            host.boot()

    def add(self) -> Host:
        """Makes one more host and switches it on; names of hosts that come later are unknown to the others."""
        host = Host(self, len(self.hosts))
        self.hosts.append(host)
        host.boot()
        return host

    def on_switch(self, *words: str) -> str:
        """Runs a command in the switch's network namespace.

        Raises:
            ElastaneError: it failed.
        """
        assert self._switch is not None
        return _done(["nsenter", f"--target={self._switch.pid}", "--net", "--", *words])

    def close(self) -> None:
        """Switches all hosts and the switch off; nothing of them is left."""
        for host in self.hosts:
            host.kill()
        switch, self._switch = self._switch, None
        if switch is not None:
            switch.kill()
            switch.wait(_DEADLINE_S)
            if switch.stdout is not None:
                switch.stdout.close()


def _done(words: Sequence[str]) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_DEADLINE_S)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise ElastaneError(f"{' '.join(words)}: did not end within {_DEADLINE_S:g} s") from error
    if done.returncode:
        raise ElastaneError(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def _only_child(pid: int) -> int:
    deadline = time.monotonic() + _DEADLINE_S
    while time.monotonic() < deadline:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if children:
            return int(children[0])
        time.sleep(_LOOK_S)
    raise ElastaneError("a host in a box did not start")


def _namespace(pid: int) -> str:
    with contextlib.suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    return ""


def _enter_network(namespace: int) -> None:
    """Moves this thread into a network namespace; sockets stay in the one that they were made in."""
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _NETWORK_NAMESPACE):
        raise ElastaneError(f"a host's network cannot be entered: {os.strerror(ctypes.get_errno())}")


def _end_with_parent() -> None:
    """Has the kernel kill this process when its parent dies, however that happens."""
    ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0)
