"""The actor that holds a Ray node: it starts ``elastane node``, and ends when that ends, so that Ray starts it again.

It does nothing else.  Its process has many threads, so it is no parent for workers; the node's agent is.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence

from elastane.engines.ray.fleet import Seen, seen, unlike_others
from elastane.engines.ray.leashed import PARENT

_REST_S = 3.0
"""How long it outlives its process: a node that is refused must not be tried a hundred times a second."""


class Pilot:
    """One Ray node of ours, as long as it lives."""

    def __init__(self, words: Sequence[str], name: str = "") -> None:
        """Starts the agent; in the main thread, because the leash is tied to the thread that starts a process.

        ``words`` are the join string and then options of ``elastane node``; ``name`` is that of the node, by default
        found here.  The string goes through a pipe, because every user of a machine sees command lines.
        """
        join, *options = words
        self.name = name or _name_here()
        node = ["--join-file=/dev/stdin", *options, f"--name={self.name}"]
        self._process = subprocess.Popen(  # noqa: S603
            # What it prints goes where Ray puts the pilot's own output.
            [sys.executable, "-m", "elastane.engines.ray.leashed", *node],
            env={**environment(os.environ), PARENT: str(os.getpid())},
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:  # it may have ended at once
            pipe.write(join.encode())
        threading.Thread(target=self._end_with_it, daemon=True).start()

    def _end_with_it(self) -> None:
        self._process.wait()
        time.sleep(_REST_S)
        os._exit(1)

    def where(self) -> tuple[str, str]:
        """Returns the name under which the node joins, and Ray's id of it."""
        import ray

        return self.name, str(ray.get_runtime_context().get_node_id())


def _name_here() -> str:
    """Returns the name of the node on which this actor is: nobody knew which one it would be."""
    import ray

    own = str(ray.get_runtime_context().get_node_id())
    nodes = [seen(node) for node in ray.nodes() if node.get("Alive")]  # type: ignore[no-untyped-call]
    here = next((node for node in nodes if node.id == own), Seen(own, socket.gethostname(), ""))
    return unlike_others(here, nodes)


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Returns a pilot's environment without what is Ray's: its token opens the whole cluster."""
    return {name: value for name, value in given.items() if not name.startswith("RAY_")}
