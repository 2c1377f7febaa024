"""Runs a real Elastane on hosts in a box: ``elastane up --listen`` on the first, ``elastane node`` on the others.

What is asked and watched is the user's business: enter the head's network (``Host.network``), and its API answers.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from elastane.engines.nodes.joined_nodes import join_string
from elastane.errors import ElastaneError
from elastane.testing.hosts.box import Box, Host

PORT = 7077
_CORES = 2
_URL = "url"
"""The file of the home in which a service says where it answers."""
_START_S = 120.0
_LOOK_S = 0.05
_LINES = 3


class Cluster:
    """A head and the machines that join it; all hosts see the same disk, but each node has a scratch of its own."""

    def __init__(
        self,
        box: Box,
        folder: Path,
        environment: Mapping[str, str],
        *,
        python: str = sys.executable,
    ) -> None:
        """``folder`` takes home, checkpoints, logs and scratch folders; processes get this environment."""
        self.box, self.home, self.checkpoints = box, folder / "home", folder / "checkpoints"
        self._folder, self._environment = folder, dict(environment)
        self._python = python
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def head(self) -> Host:
        """The host with the control plane and the hub."""
        return self.box.hosts[0]

    def up(self, *options: str) -> None:
        """Starts the service on the head and waits until it serves.

        Raises:
            ElastaneError: it ended, or did not serve for minutes.
        """
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        words = [
            "up",
            f"--home={self.home}",
            f"--listen={self.head.address}:{PORT}",
            f"--checkpoints={self.checkpoints}",
            "--jobs-as=me",
            *options,
        ]
        process = self._start(self.head, words, "up")
        deadline = time.monotonic() + _START_S
        while not (self.home / _URL).exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise ElastaneError(f"the head did not start: {self._last_words('up')}")
            time.sleep(_LOOK_S)

    def join(self, host: Host, cores: int = _CORES) -> None:
        """Starts ``elastane node`` on a host; the node has the host's name, and a slot per core."""
        words = ["node", join_string(self.home), f"--scratch={self._folder / 'scratch' / host.name}"]
        self._nodes[host.name] = self._start(host, words, host.name, cores)

    def last_words(self, host: Host) -> str:
        """Returns the end of what a node printed."""
        return self._last_words(host.name)

    def down(self) -> None:
        """Asks the head to end everything; what does not end in a moment ends with the box."""
        if self.head.alive:
            with contextlib.suppress(ElastaneError):
                self.head.do(self._python, "-m", "elastane", "down", f"--home={self.home}")

    def _start(
        self, host: Host, words: Sequence[str], name: str, cores: int = _CORES
    ) -> subprocess.Popen[bytes]:
        with self._log(name).open("ab") as output:
            return host.start(
                *("taskset", "--cpu-list", cores_of(host.number, cores)),
                *(self._python, "-m", "elastane", *words),
                environment=self._environment,
                output=output,
            )

    def _log(self, name: str) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / f"{name}.log"

    def _last_words(self, name: str) -> str:
        return " / ".join(self._log(name).read_text(errors="replace").splitlines()[-_LINES:])


def cores_of(host: int, cores: int, there: Sequence[int] = ()) -> str:
    """Returns the cores that a host may use, as ``taskset`` takes them; hosts share them where there are too few."""
    all_cores = sorted(there or _own_cores())
    first = host * cores
    return ",".join(map(str, sorted({all_cores[(first + each) % len(all_cores)] for each in range(cores)})))


def _own_cores() -> set[int]:
    return os.sched_getaffinity(0)
