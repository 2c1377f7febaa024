"""A spawner provides the parents of workers: from a process of our own, or from whoever runs the nodes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from elastane.train.coordinator.forkserver import ENDPOINT, NODE, PRELOAD, TOKEN

AT_BIRTH = (
    *("PYTHONPATH", "PYTHONHOME", "PYTHONHASHSEED", "PYTHONNOUSERSITE", "PYTHONUSERBASE", "PYTHONSAFEPATH"),
    *("PYTHONUTF8", "PYTHONWARNINGS", "PYTHONOPTIMIZE", "LD_LIBRARY_PATH", "LD_PRELOAD"),
)
"""Variables that an interpreter reads once, when it starts: a fork server that was started with others is no use."""
_OF_PLACE = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV")
"""Variables that belong to an interpreter: another one gets its owner's, or none."""
_FOLDERS = frozenset({"PATH", "PYTHONPATH", "LD_LIBRARY_PATH"})
_WARM = ("-m", "elastane.train.coordinator.forkserver")
_COLD = ("-c", "from elastane.train.coordinator.forkserver import ForkServer; ForkServer().serve()")
CANNOT_IMPORT = 78
"""Exit code of an interpreter that does not have us."""
_ELSEWHERE = f"""
import sys
sys.path[:] = [place for place in sys.path if place]
try:
    from elastane.train.coordinator import forkserver
except BaseException as error:
    print(type(error).__name__, str(error).replace(chr(10), " ")[:200], sep=": ", file=sys.stderr)
    sys.exit({CANNOT_IMPORT})
forkserver.main()
"""
"""How an interpreter that may not have us begins; it runs before anything of ours can."""
_END_S = 5.0


@dataclass(frozen=True, slots=True)
class Parentage:
    """What a fork server needs to know.  A ``cold`` one has not imported PyTorch."""

    endpoint: str
    token: str
    run: Path
    cold: bool = False
    threads: int = 1
    preload: tuple[str, ...] = ()
    python: str = ""
    """The interpreter; empty is our own."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The job's own; a fork server is born with some of them."""
    directory: Path = Path()
    """The job's, where relative folders in its variables begin."""

    def environment(self, node: str) -> dict[str, str]:
        """For its process, besides what everybody has."""
        threads = str(self.threads) if self.cold else "1"
        return {
            **born_with(self.variables, self.python, self.directory),
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads),
            ENDPOINT: self.endpoint,
            TOKEN: self.token,
            NODE: node,
            PRELOAD: ",".join(self.preload),
            "ELASTANE_RUN": str(self.run.resolve()),
        }


def born_with(variables: Mapping[str, str], python: str, directory: Path) -> dict[str, str]:
    """Of a job's variables, those that matter when its fork server starts: it does not start in the job's directory."""
    names = (*AT_BIRTH, *_OF_PLACE) if python else AT_BIRTH
    chosen = {name: variables[name] for name in names if name in variables}
    return {name: _absolute(text, directory) if name in _FOLDERS else text for name, text in chosen.items()}


def _absolute(folders: str, directory: Path) -> str:
    return os.pathsep.join(str(directory / each) for each in folders.split(os.pathsep) if each)


def without_ours(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without what belongs to our own interpreter, for another one."""
    foreign = {*AT_BIRTH, *_OF_PLACE} - {"PATH"}
    return {name: value for name, value in environment.items() if name not in foreign}


def fork_server_command(*, cold: bool, python: str = "") -> list[str]:
    """How a fork server is started."""
    if python:
        return [python, "-c", _ELSEWHERE]
    return [sys.executable, *(_COLD if cold else _WARM)]


class ForkServers(Protocol):
    """Whoever can start a fork server on a node; it connects by itself."""

    def ask(self, node: str, parentage: Parentage) -> None:
        """Have one started, soon; harmless to repeat."""
        ...

    def lost(self, node: str) -> None:
        """The one on this node fell silent: it is ended before another is started there."""
        ...

    def cut_off(self, node: str) -> bool:
        """Whether the way to a node is interrupted, while its fork server and workers may be well."""
        ...

    def log_comes(self, node: str) -> Awaitable[object] | None:
        """What to wait for before a worker's log from a node is read to its end; None where logs are written here."""
        ...

    def problem(self) -> str:
        """Why there can be none, if so; empty while there is hope."""
        ...

    async def end(self) -> None:
        """All of ours end now, if they have not."""
        ...


class OwnForkServer:
    """One fork server on this machine, in a session of its own, so that Ctrl-C does not reach it."""

    def __init__(self, run: Path) -> None:
        self._log = run / "logs" / "nursery.log"
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, node: str, parentage: Parentage) -> None:
        """Start the fork server, unless it has been started."""
        if self.process is not None:
            return
        with self._log.open("ab") as log:
            self.process = start_fork_server(parentage, node, log)

    def lost(self, node: str) -> None:  # noqa: ARG002 (there is one)
        """Its workers die with it, also those that are frozen."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()

    def cut_off(self, node: str) -> bool:  # noqa: ARG002 (it is here)
        """Never: nothing is between it and us."""
        return False

    def log_comes(self, node: str) -> None:
        """Nothing: its workers write here."""

    def problem(self) -> str:
        """Its last line, if it has ended."""
        if self.process is None or self.process.poll() is None:
            return ""
        tail = self._log.read_text(errors="replace").strip()
        return tail.splitlines()[-1].removeprefix("elastane: error: ") if tail else "no reason given"

    async def end(self) -> None:
        """Give it time to go by itself."""
        process = self.process
        if process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(process.wait, _END_S)
        if process.poll() is None:
            process.kill()
            process.wait()


def start_fork_server(
    parentage: Parentage, node: str, log: IO[bytes], extra: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """A fork server process for a node; ``log`` takes what it prints."""
    return subprocess.Popen(  # noqa: S603
        fork_server_command(cold=parentage.cold, python=parentage.python),
        env={**os.environ, **parentage.environment(node), **(extra or {})},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
