"""The actor that holds a Ray node: it starts ``elastane node``, and ends when that ends, so that Ray starts it again.

It does nothing else.  Its process has many threads, so it is no parent for workers; the node's agent is.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence

from elastane.engines.ray.leashed import PARENT

_REST_S = 3.0
"""How long it outlives its process: a node that is refused must not be tried a hundred times a second."""


class Pilot:
    """One Ray node of ours, as long as it lives."""

    def __init__(self, words: Sequence[str], name: str = "") -> None:
        """Starts the agent; in the main thread, because the leash is tied to the thread that starts a process.

        ``words`` are the arguments of ``elastane node``; ``name`` is that of the node, else its host's.
        """
        self.name = name or socket.gethostname().partition(".")[0]
        command = [sys.executable, "-m", "elastane.engines.ray.leashed", *words, f"--name={self.name}"]
        self._process = subprocess.Popen(  # noqa: S603
            command,  # what it prints goes where Ray puts the pilot's own output
            env={**environment(os.environ), PARENT: str(os.getpid())},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        threading.Thread(target=self._end_with_it, daemon=True).start()

    def _end_with_it(self) -> None:
        self._process.wait()
        time.sleep(_REST_S)
        os._exit(1)

    def where(self) -> tuple[str, str]:
        """Returns the name under which the node joins, and Ray's id of it."""
        import ray

        return self.name, str(ray.get_runtime_context().get_node_id())


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Returns a pilot's environment without what is Ray's: its token opens the whole cluster."""
    return {name: value for name, value in given.items() if not name.startswith("RAY_")}
