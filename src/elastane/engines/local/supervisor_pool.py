"""Starts the processes that run attempts, and keeps one ready in advance: its imports take longer than all the rest.

The one that waits ends with us; once it has been given an attempt, nothing of ours is needed any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from elastane.engines.local.environment import for_service

WAITING = "elastane.engines.local.spare_process"
_AGAIN_S = 0.5


class Supervisors:
    """``later`` is told to call something after some seconds."""

    def __init__(self, home: Path, later: Callable[[float, Callable[[], None]], object]) -> None:
        self._home = home
        self._later = later
        self._environment = for_service(os.environ, home)
        self._spare: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._turns = asyncio.Lock()

    async def begin(self, folder: Path) -> subprocess.Popen[bytes]:
        """Starts a process for the attempt in this folder; of many at once, one in each turn of the event loop.

        A process takes some 15 ms to start; a dozen in one turn would keep requests waiting for all of them.
        """
        async with self._turns:
            process = self._start(folder)
            await asyncio.sleep(0)
        return process

    def _start(self, folder: Path) -> subprocess.Popen[bytes]:
        process, self._spare = self._spare, None
        if process is None or process.poll() is not None:
            process = self._wait_for_work()
        self._later(_AGAIN_S, self.keep_one_ready)
        assert process.stdin is not None
        with contextlib.suppress(OSError), process.stdin as way:
            way.write(f"{folder}\n".encode())
        return process

    def keep_one_ready(self) -> None:
        """For whatever comes next."""
        if not self._closed and (self._spare is None or self._spare.poll() is not None):
            self._spare = self._wait_for_work()

    def close(self) -> None:
        """Nothing more will be started."""
        self._closed = True
        if self._spare is not None:
            self._spare.kill()
            self._spare.wait()

    def _wait_for_work(self) -> subprocess.Popen[bytes]:
        with (self._home / "supervisors.log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", WAITING, str(self._home)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd="/",
                env=self._environment,
                start_new_session=True,
            )
