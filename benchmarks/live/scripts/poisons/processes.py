"""Processes: those that will not end, those that hide, and those that harm their relatives."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path

from benchmarks.live.scripts.poisons.place import Place, deed

_PTRACE_ATTACH, _PTRACE_SEIZE = 16, 0x4206
_LONG_S = "600"


def _escape(place: Place, environment: dict[str, str]) -> None:
    """A grandchild of the first process, in a session of its own."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    os.setsid()
    if os.fork() == 0:
        place.own_up(os.getpid())
        os.execve("/bin/sleep", ["sleep", _LONG_S], environment)
    os._exit(0)


@deed
def escape_with_mark(place: Place) -> None:
    """Out of group and session."""
    _escape(place, dict(os.environ))


@deed
def escape_without_mark(place: Place) -> None:
    """Out of group, session and environment; and SIGTERM is ignored."""
    _escape(place, {"PATH": os.environ["PATH"]})
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@deed
def escape_and_end(place: Place) -> None:
    """The same by a job that then succeeds."""
    _escape(place, {"PATH": os.environ["PATH"]})
    (place.scratch / "deed").touch()
    os._exit(0)


@deed
def hundreds_of_children(place: Place) -> None:
    """Three hundred children, half of them in sessions of their own."""
    for number in range(300):
        pid = os.fork()
        if pid == 0:
            if number % 2:
                os.setsid()
            time.sleep(600.0)
            os._exit(0)
        place.own_up(pid)


@deed
def hydra(place: Place) -> None:
    """Two processes, each of which starts the other again."""
    for _ in range(2):
        if os.fork() == 0:
            os.setsid()
            _regrow(place)


def _regrow(place: Place) -> None:
    """Live a twentieth of a second, leave a child, and end; for a minute at most."""
    until_s = time.monotonic() + 60.0
    place.own_up(os.getpid())
    while time.monotonic() < until_s:
        time.sleep(0.05)
        if os.fork():
            os._exit(0)
        place.own_up(os.getpid())
    os._exit(0)


@deed
def deaf(place: Place) -> None:
    """Every signal that can be ignored is."""
    del place
    for number in signal.valid_signals():
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)


@deed
def stops_itself(place: Place) -> None:
    """SIGSTOP to itself: it can do nothing when asked to end."""
    (place.scratch / "deed").touch()
    os.kill(os.getpid(), signal.SIGSTOP)


@deed
def stops_parent(place: Place) -> None:
    """SIGSTOP to whoever started it."""
    del place
    os.kill(os.getppid(), signal.SIGSTOP)


@deed
def kills_parent(place: Place) -> None:
    """SIGKILL to whoever started it."""
    (place.scratch / "deed").touch()
    os.kill(os.getppid(), signal.SIGKILL)


def _of_own_attempt() -> list[int]:
    """Whoever carries the same mark: nobody else's processes."""
    own = os.environ.get("ELASTANE_MARK", "none").encode()
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and own in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return [pid for pid in found if pid != os.getpid()]


def _supervisor(place: Place) -> list[int]:
    """The process that runs the attempt, as its lock says."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return [int((place.attempt / "lock").read_text().split()[0])]
    return []


@deed
def kills_its_attempt(place: Place) -> None:
    """SIGKILL to everybody of its own attempt that it can find."""
    (place.scratch / "deed").touch()
    for pid in [*_supervisor(place), *_of_own_attempt()]:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


@deed
def stops_its_attempt(place: Place) -> None:
    """SIGSTOP to everybody of its own attempt, its supervisor first."""
    for pid in [*_supervisor(place), *_of_own_attempt()]:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGSTOP)


@deed
def kills_its_supervisor(place: Place) -> None:
    """Its supervisor, each time one is there."""
    for _ in range(10):
        for pid in _supervisor(place):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                (place.scratch / "deed").touch()
        time.sleep(0.3)


@deed
def no_descriptors(place: Place) -> None:
    """Every descriptor is closed."""
    del place
    os.closerange(0, 4096)


@deed
def writes_on_descriptors(place: Place) -> None:
    """Junk on whatever it inherited."""
    del place
    for fd in range(3, 256):
        with contextlib.suppress(OSError):
            os.set_blocking(fd, False)
            os.write(fd, b'{"type":"stop"}\n' + os.urandom(4096))


@deed
def takes_descriptors(place: Place) -> None:
    """As many descriptors as it may have, and more processes than it needs."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    place.scratch.joinpath("kept").write_text(str(soft))
    _kept.extend(os.dup(1) for _ in range(min(soft, 4096) - 64))


_kept: list[int] = []


@deed
def traces_parent(place: Place) -> None:
    """A debugger on whoever started it."""
    del place
    trace = ctypes.CDLL(None, use_errno=True).ptrace
    for request in (_PTRACE_ATTACH, _PTRACE_SEIZE):
        trace(request, os.getppid(), None, None)


@deed
def traces_supervisor(place: Place) -> None:
    """A debugger on its supervisor, which stands still from then on."""
    trace = ctypes.CDLL(None, use_errno=True).ptrace
    for pid in _supervisor(place):
        trace(_PTRACE_ATTACH, pid, None, None)


@deed
def busy(place: Place) -> None:
    """Many threads that compute, at the highest priority it can get, for some seconds."""
    del place
    with contextlib.suppress(OSError):
        os.nice(-20)
    until_s = time.monotonic() + 2.0
    for _ in range(20):
        threading.Thread(target=_spin, args=(until_s,)).start()


def _spin(until_s: float) -> None:
    while time.monotonic() < until_s:
        pass


@deed
def strange_end(place: Place) -> None:
    """Last words that are no text, then death by a real-time signal."""
    (place.scratch / "deed").touch()
    os.write(2, b"\xff\xfe caf\xe9 \x1b[2J\n")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGRTMIN + 5)


@deed
def half_character_at_end(place: Place) -> None:
    """Last words with the name of a file that is not UTF-8."""
    (place.scratch / "deed").touch()
    sys.stderr.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]
    sys.exit("cannot read " + os.fsdecode(b"/data/caf\xe9.bin"))


@deed
def endless_last_words(place: Place) -> None:
    """A failure whose last line has a hundred megabytes."""
    (place.scratch / "deed").touch()
    for _ in range(100):
        os.write(2, b"x" * (1 << 20))
    os._exit(3)
