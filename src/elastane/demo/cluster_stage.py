"""Starts the live system of the cluster demo on hosts in a box, and removes hosts and home without a trace."""

from __future__ import annotations

import contextlib

from elastane.client import Client
from elastane.demo.stage import INTERVAL_S, Stage
from elastane.errors import ElastaneError
from elastane.service.home import TOKEN, URL
from elastane.testing.hosts import Box, Cluster, Host, why_not

HOSTS, HEAD_SLOTS = 3, 1


class ClusterStage(Stage):
    """A head and two machines that joined it, in a temporary folder; ``close`` ends and removes all of it."""

    def __init__(self) -> None:
        """Raises ElastaneError, before anything is made, if this process cannot make hosts."""
        if why_not():
            raise ElastaneError(f"demo --cluster: {why_not()}")
        super().__init__()
        self.box = Box(self.root, hosts=HOSTS)
        own = {**self.environment(), "XDG_CACHE_HOME": str(self.root / "cache")}
        self.cluster = Cluster(self.box, self.root, own)
        self._inside = contextlib.ExitStack()

    @property
    def far(self) -> list[Host]:
        """All hosts but the head."""
        return self.box.hosts[1:]

    def open(self) -> Client:
        """Starts hosts, head and nodes, and returns a client of it; this thread now uses the head's network."""
        self._inside.enter_context(self.box)
        self.cluster.up("--nodes=1", f"--slots={HEAD_SLOTS}", f"--interval={INTERVAL_S:g}", "--min-run=0")
        for host in self.far:
            self.cluster.join(host)
        self._inside.enter_context(self.cluster.head.network())
        url, token = ((self.home / name).read_text().strip() for name in (URL, TOKEN))
        self._client = Client(url, token, timeout_s=20.0)
        return self._client

    def end(self) -> None:
        """Asks the head to end everything, then switches all hosts off: what is still there goes with them."""
        self.cluster.down()
        self._inside.close()
