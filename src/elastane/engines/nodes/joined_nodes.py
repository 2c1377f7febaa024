"""The engine's side of nodes on other machines: it keeps a hub running, and takes up nodes as they come and go."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from elastane.cluster import Node
from elastane.engines.contract import NodeFacts
from elastane.engines.local.agent_client import AgentWatch, ask
from elastane.engines.local.agent_messages import FROM_AGENT, AgentStatus, ShutDown
from elastane.engines.local.environment import for_service
from elastane.engines.local.json_files import Lock, read_json
from elastane.engines.local.lock_holders import kill_holders
from elastane.engines.local.paths import Layout
from elastane.engines.local.wait_until import until
from elastane.engines.nodes.node_file import NodeFile, read_node
from elastane.engines.nodes.places import HUB, parse_address, written
from elastane.errors import ElastaneError
from elastane.train.coordinator.leases import LEASE_S, AwakeClock
from elastane.train.coordinator.login_reader import LineReader

log = logging.getLogger("elastane")
_BEGIN_S = 90.0
"""How long a hub may take to listen, the making of its certificate included."""
_TAKE_UP_S = 10.0
"""How long nodes that were there may take to be there for a new control plane."""
_AGAIN_S = 0.5
_STOP_S = 10.0
_FROZEN_S = 2 * LEASE_S
"""A hub that has not run for so long is killed: nothing else brings its nodes back."""
_SHUTDOWN_S = 20.0
_LOG = "hub.log"


class JoinedWatch(AgentWatch):
    """One node on another machine, watched through the hub: it is never started or killed from here."""

    async def _look_after(self) -> None:
        await self._connect()

    async def _facts_of_agent(self) -> dict[str, Any] | None:
        facts = read_json(self._layout.agent(self.node))
        return facts if facts is not None and facts.get("present") else None

    async def _stay(self, facts: dict[str, Any], lines: LineReader, writer: asyncio.StreamWriter) -> None:
        if self.alive and self._facts is not None and self._facts.get("name") != facts.get("name"):
            self.gone()  # another agent is there: everything that ran on it has ended
        self._silences, self._facts, self.pid = 0, facts, None
        self._line, self._heard_s = writer, self._clock.now_s()
        self.alive = True
        self._changed()
        try:
            while await lines.next():
                self._heard_s = self._clock.now_s()
        finally:
            self._line = None
            if Lock(self._layout.hub_lock).held:
                self.gone()
            # Else nobody knows how the node is; the next hub will, and until then it has its lease.

    async def _clean(self, facts: Mapping[str, Any], first: AgentStatus) -> bool:
        return True if self.alive else await super()._clean(facts, first)

    def gone(self) -> None:
        """It does not answer; when it does again, it ends first what is not wanted there any more."""
        self._silences = 1
        if self.alive:
            self.alive = False
            self._changed()

    def look(self) -> None:
        """To be called twice a second: a line that was silent for a lease is given up, and its node with it."""
        super().look()
        if self.alive and self._line is None and self._clock.now_s() - self._heard_s > LEASE_S:
            self.gone()

    async def shut_down(self) -> None:
        """End every attempt on the node; its process stays, and waits for the next head."""
        facts = read_json(self._layout.agent(self.node))
        if facts is not None and facts.get("present"):
            await ask(facts, ShutDown(), FROM_AGENT, _SHUTDOWN_S)


@dataclass(slots=True)
class _Known:
    file: NodeFile
    stamp: tuple[int, int]
    watch: JoinedWatch
    task: asyncio.Task[None]


class JoinedNodes:
    """All nodes of one home that are on other machines."""

    def __init__(
        self,
        layout: Layout,
        listen: str,
        changed: Callable[[], None],
        wanted: Callable[[str, str], bool],
        own: Mapping[str, Node],
    ) -> None:
        """``listen`` is where the hub listens, as ``HOST:PORT``; empty: none is started, one that runs is used."""
        if listen:
            parse_address(listen, "--listen")
        self._layout, self._listen = layout, listen
        self._changed, self._wanted, self._own = changed, wanted, own
        self._known: dict[str, _Known] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._on = False
        self._clock = AwakeClock()
        self._hub_stamp, self._hub_seen_s = 0, 0.0
        self._started_s = -_AGAIN_S

    async def open(self) -> None:
        """Have a hub, and take up the nodes that have joined before.

        Raises:
            ElastaneError: it cannot listen there.
        """
        for name in self._own:
            if self._layout.joined(name).exists():
                raise ElastaneError(
                    f"another machine has joined as node {name}, which is a name of this machine's own; "
                    "end it, and have it join with another --name"
                )
        lock = Lock(self._layout.hub_lock)
        self._on = bool(self._listen) or lock.held
        if not self._listen:
            await self._take_up(self._expected())
            return
        expected = self._expected()
        if lock.held and (read_json(self._layout.hub / HUB) or {}).get("listen") != self._listen:
            await self._stop_hub()
        if not lock.held:
            self._start()
        await until(lambda: self._listens() or self._failed(), _BEGIN_S)
        if not self._listens():
            raise ElastaneError(self._last_line())
        await self._take_up(expected)

    def _expected(self) -> set[str]:
        """Nodes that were there when the last control plane was: their jobs must not be taken for lost."""
        files = {name: read_node(self._layout, name) for name in self._layout.nodes()}
        return {name for name, file in files.items() if file is not None and file.present} - self._own.keys()

    async def _take_up(self, expected: set[str]) -> None:
        def there() -> bool:
            self.look()
            return all(name in self._known and self._known[name].watch.alive for name in expected)

        await until(there, _TAKE_UP_S)

    def _listens(self) -> bool:
        facts = read_json(self._layout.hub / HUB) or {}
        return facts.get("pid") == Lock(self._layout.hub_lock).holder() is not None

    def _failed(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def _last_line(self) -> str:
        path = self._layout.hub / _LOG
        lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
        return lines[-1].removeprefix("error: ") if lines else "--listen: the hub does not start"

    def _start(self) -> None:
        self._layout.hub.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self._layout.hub / _LOG).open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "elastane.engines.nodes.hub", str(self._layout.home), self._listen],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env=for_service(os.environ, self._layout.home),
                start_new_session=True,
            )
        self._started_s = asyncio.get_running_loop().time()

    def look(self) -> None:
        """To be called twice a second: nodes come and go, and a hub that has ended is started again."""
        if not self._on:
            return
        for name in self._layout.nodes():
            self._look_at(name)
        for name in [name for name in self._known if not self._layout.joined(name).exists()]:
            self._drop(name)
        for known in self._known.values():
            known.watch.look()
        self._look_at_hub()

    def _look_at_hub(self) -> None:
        """One that has ended is started again, one that does not move is killed first."""
        if self._frozen() and kill_holders(self._layout.hub_lock):
            log.warning("the hub did not run for %g s and was killed", _FROZEN_S)
        now_s = asyncio.get_running_loop().time()
        if self._listen and now_s - self._started_s > _AGAIN_S and not self._runs():
            log.warning("the hub has ended; it is started again")
            self._start()

    def _frozen(self) -> bool:
        """Whether the hub holds its lock, and has done nothing for long while we were awake."""
        now_s, path = self._clock.now_s(), self._layout.hub / HUB
        stamp = path.stat().st_mtime_ns if path.exists() else 0
        if stamp != self._hub_stamp or not Lock(self._layout.hub_lock).held:
            self._hub_stamp, self._hub_seen_s = stamp, now_s
        return now_s - self._hub_seen_s > _FROZEN_S

    def _runs(self) -> bool:
        """A hub there is, or one that has not come to its lock yet."""
        return Lock(self._layout.hub_lock).held or (self._process is not None and self._process.poll() is None)

    def _look_at(self, name: str) -> None:
        try:
            facts = self._layout.joined(name).stat()
        except OSError:
            return
        stamp, known = (facts.st_mtime_ns, facts.st_ino), self._known.get(name)
        if name in self._own or (known is not None and known.stamp == stamp):
            return
        file = read_node(self._layout, name)
        if file is None:
            return
        if known is None:
            watch = JoinedWatch(self._layout, name, partial(self._news_of, name), (), self._wanted)
            self._known[name] = _Known(file, stamp, watch, asyncio.create_task(watch.run()))
        else:
            known.file, known.stamp = file, stamp
        self._changed()

    def _news_of(self, name: str) -> None:
        """A node came or went: what is known of it is read at once, so that all that we say of it fits together."""
        self._look_at(name)
        self._changed()

    def _drop(self, name: str) -> None:
        known = self._known.pop(name)
        known.task.cancel()
        self._changed()

    # What the engine tells.

    def known(self) -> dict[str, Node]:
        """All that have joined and have not said farewell."""
        return {name: known.file.node() for name, known in self._known.items()}

    def answering(self) -> dict[str, Node]:
        """Those that are there and may get work."""
        found = self._known.items()
        return {name: k.file.node() for name, k in found if k.watch.alive}

    def facts(self) -> dict[str, NodeFacts]:
        """What is known of each besides."""
        return {name: known.file.facts() for name, known in self._known.items()}

    def agents(self) -> dict[str, dict[str, Any]]:
        """Who answers, for people."""
        return {name: {"alive": known.watch.alive, "pid": None} for name, known in self._known.items()}

    def listening(self) -> str:
        """Where nodes join, as ``HOST:PORT``; empty if they cannot."""
        facts = read_json(self._layout.hub / HUB) if self._on else None
        return written(str(facts["address"]), int(facts["port"])) if facts is not None else ""

    # Its end.

    async def close(self, *, leave_running: bool) -> None:
        """Let go; without ``leave_running`` attempts on all nodes end, and the hub."""
        for known in self._known.values():
            known.task.cancel()
        await asyncio.gather(*(known.task for known in self._known.values()), return_exceptions=True)
        if self._on and not leave_running:
            await asyncio.gather(*(known.watch.shut_down() for known in self._known.values()))
            await self._stop_hub()

    async def _stop_hub(self) -> None:
        """End it, by force if it does not hear."""
        lock = Lock(self._layout.hub_lock)
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
        elif (pid := lock.holder()) is not None:
            os.kill(pid, 15)
        if not await until(lambda: not self._runs(), _STOP_S):
            await asyncio.to_thread(kill_holders, self._layout.hub_lock)
            if self._process is not None:
                self._process.kill()
            await until(lambda: not self._runs(), _STOP_S)
        self._process = None


def join_string(home: Path) -> str:
    """What to type on another machine so that it joins the cluster of this home.

    Raises:
        ElastaneError: no node can join there, or this user may not read how.
    """
    from elastane.engines.nodes.joining import JOIN, Admission, Join

    layout = Layout(home)
    try:
        facts, known = read_json(layout.hub / HUB), read_json(layout.hub / JOIN)
    except PermissionError:
        raise ElastaneError(f"only the owner of {home} may see how nodes join") from None
    if facts is None or known is None or not Lock(layout.hub_lock).held:
        raise ElastaneError(f"no node can join {home} now; start it with 'elastane up --listen HOST:PORT'")
    admits = Admission(layout.hub, str(known["secret"]), str(known["cluster"]))
    return str(Join(str(facts["address"]), int(facts["port"]), admits.secret, admits.fingerprint))
