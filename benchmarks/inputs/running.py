"""Runs a verb in a forked child of this process, so that imports are paid for once; time and memory are limited."""

from __future__ import annotations

import importlib
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

WALL_S = 60.0
CPU_S = 60
MEMORY_MB = 1024.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of a command; a negative code is the signal that ended it."""

    code: int
    out: str
    err: str
    seconds: float
    peak_mb: float
    late: bool


_ASKED_FOR = (
    "elastane.cli.main",
    "elastane.cli.predict.backtest",
    "elastane.client.client",
    "elastane.jobs.sbatch",
    "elastane.jobs.yamlio",
    "elastane.models.history.files",
    "elastane.predict.backtesting.held_out",
    "elastane.predict.capturing",
    "elastane.predict.eta.log_session",
    "elastane.sim.report",
    "elastane.sim.run",
    "elastane.sim.run_many",
)


def warm() -> None:
    """Import what verbs import when they are asked for."""
    for module in _ASKED_FOR:
        importlib.import_module(module)


def run(command: Sequence[str], folder: Path) -> Ran:
    """The command in a folder, in a child that has what this process imported."""
    out, err = folder / ".out", folder / ".err"
    sys.stdout.flush()
    sys.stderr.flush()
    began_s = time.monotonic()
    child = os.fork()
    if child == 0:
        _become(command, folder, out, err)
    late = not _ended(child, WALL_S)
    if late:
        os.killpg(child, signal.SIGKILL)
    _, status, used = os.wait4(child, 0)
    seconds = time.monotonic() - began_s
    late = late or os.waitstatus_to_exitcode(status) == -signal.SIGXCPU
    code = os.waitstatus_to_exitcode(status)
    return Ran(code, _text(out), _text(err), seconds, used.ru_maxrss / 1024, late)


def _ended(child: int, within_s: float) -> bool:
    descriptor = os.pidfd_open(child)
    try:
        return bool(select.select([descriptor], [], [], within_s)[0])
    finally:
        os.close(descriptor)


def _become(command: Sequence[str], folder: Path, out: Path, err: Path) -> None:
    """The child: never returns, whatever happens."""
    code = 70
    try:
        os.setsid()
        os.chdir(folder)
        for descriptor, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _limit()
        code = _main(command)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _limit() -> None:
    """So much processor time, and so much address space beyond what was mapped before."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 5))
    mapped = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * _PAGE
    most = mapped + int(MEMORY_MB) * (1 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _main(command: Sequence[str]) -> int:
    """As the installed command would: an exception that nobody caught is shown as Python shows it, exit code 1."""
    from elastane.cli.main import main

    sys.argv = ["elastane", *command]
    try:
        main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="backslashreplace") if path.exists() else ""
