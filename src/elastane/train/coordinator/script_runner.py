"""Runs a training script inside a worker process and makes sure that its end is understood.

``run`` never returns.  A user's mistake is one line in the log, any other exception keeps its traceback, and
the coordinator is told the cause before the process ends.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import resource
import runpy
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from elastane.errors import ElastaneError
from elastane.train.coordinator import device_locks, exit_note
from elastane.train.coordinator.snapshot_memory import inherited
from elastane.train.coordinator.torchrun_store import keep_store_at_home
from elastane.train.coordinator.wire import Line, Message, encode_message
from elastane.train.errors import Released
from elastane.train.exit_cause import CANNOT_START

BEGIN = "ELASTANE_BEGIN"
"""Environment variable with what a worker that is started cold has to know (``Begin``)."""

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)

tell_cause: list[Callable[[str], None]] = []
"""Who wants to know why this process ends (the client of the coordinator adds itself here)."""

advise: list[Callable[[BaseException], str]] = []
"""Who may know what a user should write instead of what raised an error; empty text if he does not."""

at_clean_end: list[Callable[[], None]] = []
"""What to do when the script has come to its end without an error."""

at_error: list[Callable[[BaseException], None]] = []
"""What to do when the script has ended by an exception, before anybody is told."""

_kept: list[object] = []
"""What the script leaves behind, so that nothing of it is torn down before the process ends: the destructor of
PyTorch's ``DistributedDataParallel`` can wait for ever for a thread that waits for the interpreter's lock."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker process is to run, and with what: a Python script, or any program in its place."""

    worker: str
    script: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    log: str
    directory: str
    module: bool = False
    nice: int = 0
    program: tuple[str, ...] = ()


class Begin(Message, frozen=True, tag="begin"):
    """What a fresh interpreter is to do, and the process that it must not outlive."""

    order: Order
    parent: int


TO_COLD = Line("the fork server", Begin)


def die_with(parent: int) -> None:
    """Have the system kill this process when its parent, which should be ``parent``, ends."""
    set_death_signal()
    if os.getppid() != parent:
        os._exit(1)


def set_death_signal() -> None:
    """Have the system kill this process when its parent ends; forgotten when it becomes another user."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def run(order: Order) -> None:
    """Become this worker; ends the process."""
    _redirect(order.log)
    os.environ.update(order.environment)
    lacking = device_locks.claim(os.environ)
    if lacking:
        print(f"elastane: error: {lacking}", file=sys.stderr)  # noqa: T201
        os._exit(CANNOT_START)
    try:
        os.chdir(order.directory)
    except OSError as error:
        print(f"elastane: error: {order.directory}: {error.strerror}", file=sys.stderr)  # noqa: T201
        os._exit(CANNOT_START)
    if order.nice and may_hurry():
        os.nice(order.nice)
    if order.program:
        _become(order.program)
    keep_store_at_home(os.environ)
    sys.argv = [order.script, *order.arguments]
    _leave(_execute(order))


def _become(program: tuple[str, ...]) -> None:
    try:
        os.execvp(program[0], program)  # noqa: S606
    except OSError as error:
        print(f"elastane: error: {program[0]}: {error.strerror}", file=sys.stderr)  # noqa: T201
        os._exit(CANNOT_START)


def may_hurry() -> bool:
    """Whether this process may take back a lower priority; without that it must not ask for one."""
    return os.geteuid() == 0 or resource.getrlimit(resource.RLIMIT_NICE)[0] >= 20


def hurry() -> None:
    """Back to normal priority, for all threads."""
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, int(thread), 0)


def _redirect(log: str) -> None:
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    sys.stdout, sys.stderr = _written(1), _written(2)


def _written(fd: int) -> TextIO:
    """As Python opens standard error: a file name that is no UTF-8 must not end a training that prints it."""
    return open(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def _execute(order: Order) -> int:
    try:
        if order.module:
            sys.path.insert(0, order.directory)
            _kept.append(runpy.run_module(order.script, run_name="__main__", alter_sys=True))
        else:
            sys.path.insert(0, str(Path(order.script).resolve().parent))
            _kept.append(runpy.run_path(order.script, run_name="__main__"))
        _end_cleanly()
    except SystemExit as ended:
        _kept.append(ended)
        return _code_of(ended)
    except KeyboardInterrupt as interrupt:
        _kept.append(interrupt)
        return 130
    except ElastaneError as mistake:
        _kept.append(mistake)
        _report(str(mistake))
        print(f"elastane: error: {mistake}", file=sys.stderr)  # noqa: T201
        return 2
    except BaseException as error:  # whatever a script may raise
        _kept.append(error)
        exit_note.note(error)
        for save in at_error:
            save(error)
        traceback.print_exc()
        last = traceback.format_exception_only(error)[-1].strip()
        advice = "; ".join(text for give in advise if (text := give(error)))
        _report(f"{last} ({_where(error)})" + (f"; {advice}" if advice else ""))
        return 1
    return 0


def _end_cleanly() -> None:
    for end in at_clean_end:
        end()


def _code_of(ended: SystemExit) -> int:
    if not ended.code and not isinstance(ended, Released):
        _end_cleanly()
    if ended.code is None or isinstance(ended.code, int):
        if ended.code:
            _report(f"the script ended with exit code {ended.code}")
        return ended.code or 0
    _report(str(ended.code))
    print(ended.code, file=sys.stderr)  # noqa: T201
    return 1


def _where(error: BaseException) -> str:
    """The innermost line outside installed packages: the one the user wrote."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "site-packages" not in f.filename and "runpy" not in f.filename]
    ours = [f for f in own if f"{os.sep}elastane{os.sep}" not in f.filename]
    chosen = (ours or own or list(frames))[-1:]
    return f"{Path(chosen[0].filename).name}, line {chosen[0].lineno}" if chosen else "no line known"


def _report(cause: str) -> None:
    for tell in tell_cause:
        tell(cause)


def _leave(code: int) -> None:
    """End without the interpreter's slow tear-down, but not before what the script registered has run."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def start_cold(order: Order, note: int) -> int:
    """Run an order in a fresh interpreter, where forking is not safe; returns its process id.

    ``note`` is the end of a pipe for its ``exit_note``.
    """
    told = encode_message(Begin(order, os.getpid())).decode()
    described = {BEGIN: told, exit_note.VARIABLE: str(note)}
    # Not with -m: what scripts register with us must reach this very module, not a second one called __main__.
    code = "from elastane.train.coordinator.script_runner import begin_cold; begin_cold()"
    command = [sys.executable, "-c", code]
    environment = {**os.environ, **described}
    kept = (note, *(inherited(os.environ) or ()))
    return subprocess.Popen(command, env=environment, pass_fds=kept).pid  # noqa: S603


def begin_cold() -> None:
    """What the fresh interpreter does; ends the process."""
    told = TO_COLD.decode(os.environ.pop(BEGIN).encode())
    die_with(told.parent)
    exit_note.take_from(os.environ)
    run(told.order)
