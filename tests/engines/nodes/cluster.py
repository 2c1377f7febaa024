"""A head with one virtual node and a hub, and nodes that join it as processes of their own, all on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from elastane.cluster import Node
from elastane.engines.contract import Launch
from elastane.engines.local.engine import LocalEngine
from elastane.engines.local.json_files import Lock, read_json
from elastane.engines.local.marked_processes import marked
from elastane.engines.local.paths import Layout
from elastane.engines.nodes.joined_nodes import join_string
from elastane.engines.nodes.node_file import NodeFile, read_node
from engines.local.house import SCRIPTS, House, live
from engines.local.test_silence import family, signal_all

LISTEN = "127.0.0.1:0"
__all__ = ["Far", "Site", "live", "site"]


class Far:
    """One node in a process of its own."""

    def __init__(
        self, site: Site, name: str, *options: str, enter: Sequence[str] = (), apart: bool = True
    ) -> None:
        """``enter``: how to get to the host where it runs; ``apart``: with a disk of its own, as it were."""
        self.site, self.name, self.enter = site, name, enter
        self.options = ("--own-disk", *options) if apart else options
        self.scratch = site.home / "far" / name
        self.log = site.home / f"{name}.log"
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        words = ["node", join_string(self.site.home), f"--name={self.name}", f"--scratch={self.scratch}"]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [*self.enter, sys.executable, "-m", "elastane", *words, *self.options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return self.process

    @property
    def file(self) -> NodeFile | None:
        return read_node(Layout(self.site.home), self.name)

    def said(self) -> str:
        return self.log.read_text()

    def family(self) -> list[int]:
        return family(self.process.pid)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[list[int]]:
        pids = self.family()
        signal_all(pids, signal.SIGSTOP)
        try:
            yield pids
        finally:
            signal_all(pids, signal.SIGCONT)


class Site(House):
    """A house with a hub."""

    def __init__(self, home: Path, engine: LocalEngine) -> None:
        super().__init__(home, engine)
        self.far: list[Far] = []

    def join(self, name: str, *options: str, apart: bool = True) -> Far:
        self.far.append(Far(self, name, *options, apart=apart))
        return self.far[-1]

    async def joined(self, name: str, *options: str, apart: bool = True) -> Far:
        far = self.join(name, *options, apart=apart)
        await self.until(lambda: name in self.engine.nodes())
        return far

    def counting(self, job: str = "j1", number: int = 1) -> Launch:
        """A job that goes on until ``enough``."""
        script = str(SCRIPTS / "counting.py")
        return self.launch(job, number, sys.executable, script, str(self.out), "--pause=0.01")

    @property
    def out(self) -> Path:
        return self.home / "counts"

    def enough(self, job: str = "j1") -> None:
        """Whoever leads, wherever, hears that the script may end."""
        for home in (self.home, *(far.scratch for far in self.far)):
            run = Layout(home).run(job)
            if run.is_dir():
                (run / "enough").touch()

    def hub_pid(self) -> int | None:
        return Lock(Layout(self.home).hub_lock).holder()

    async def replaced(self, new: Callable[[], LocalEngine] | None = None) -> None:
        """Another control plane takes over."""
        await self.engine.close(leave_running=True)
        self.engine = new() if new is not None else head(self.home)
        await self.engine.open()


def head(home: Path, listen: str = LISTEN) -> LocalEngine:
    return LocalEngine(home, {"n0": Node("n0", 2, "cpu")}, listen=listen)


@asynccontextmanager
async def site(home: Path, listen: str = LISTEN) -> AsyncIterator[Site]:
    """A head that is ended, with everything in it and around it, when the block ends."""
    living = Site(home, head(home, listen))
    await living.engine.open()
    try:
        yield living
    finally:
        await living.engine.close(leave_running=False)
        for far in living.far:
            with contextlib.suppress(ProcessLookupError):
                os.kill(far.process.pid, signal.SIGCONT)
            far.process.terminate()
        for far in living.far:
            await asyncio.to_thread(far.process.wait)
    assert list(marked(home)) == []
    for far in living.far:
        assert list(marked(far.scratch)) == []
    layout = Layout(home)
    assert not Lock(layout.hub_lock).held
    assert not any(Lock(layout.agent_lock(node)).held for node in layout.nodes())


def begun(living: Site, node: str) -> dict[str, object]:
    """Attempts that the hub has on record for a node."""
    return read_json(Layout(living.home).begun(node)) or {}
