"""Where the parents of workers come from: a process of our own, or whoever runs the nodes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from elastane.train.control.nursery import ENDPOINT, NODE, PRELOAD, TOKEN

_WARM = ("-m", "elastane.train.control.nursery")
_COLD = ("-c", "from elastane.train.control.nursery import Nursery; Nursery().serve()")
_END_S = 5.0


@dataclass(frozen=True, slots=True)
class Parentage:
    """What a nursery needs to know.  A ``cold`` one has not imported PyTorch."""

    endpoint: str
    token: str
    run: Path
    cold: bool = False
    threads: int = 1
    preload: tuple[str, ...] = ()

    def environment(self, node: str) -> dict[str, str]:
        """For its process, besides what everybody has."""
        threads = str(self.threads) if self.cold else "1"
        return {
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads),
            ENDPOINT: self.endpoint,
            TOKEN: self.token,
            NODE: node,
            PRELOAD: ",".join(self.preload),
            "ELASTANE_RUN": str(self.run.resolve()),
        }


def nursery_command(*, cold: bool) -> list[str]:
    """How a nursery is started."""
    return [sys.executable, *(_COLD if cold else _WARM)]


class Nurseries(Protocol):
    """Whoever can start a nursery on a node; it connects by itself."""

    def ask(self, node: str, parentage: Parentage) -> None:
        """Have one started, soon; harmless to repeat."""
        ...

    def lost(self, node: str) -> None:
        """The one on this node fell silent: it is ended before another is started there."""
        ...

    def problem(self) -> str:
        """Why there can be none, if so; empty while there is hope."""
        ...

    async def end(self) -> None:
        """All of ours end now, if they have not."""
        ...


class OwnNursery:
    """One nursery on this machine, in a session of its own, so that Ctrl-C does not reach it."""

    def __init__(self, run: Path) -> None:
        self._log = run / "logs" / "nursery.log"
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, node: str, parentage: Parentage) -> None:
        """Start it, once."""
        if self.process is not None:
            return
        with self._log.open("ab") as log:
            self.process = start_nursery(parentage, node, log)

    def lost(self, node: str) -> None:  # noqa: ARG002 (there is one)
        """Its workers die with it, also those that are frozen."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()

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


def start_nursery(
    parentage: Parentage, node: str, log: IO[bytes], extra: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """A nursery process for a node; ``log`` takes what it prints."""
    return subprocess.Popen(  # noqa: S603
        nursery_command(cold=parentage.cold),
        env={**os.environ, **parentage.environment(node), **(extra or {})},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
