"""The hub: the one process of ours that listens on the network, on one port, with TLS.

Nodes on other machines dial it, and it speaks for each of them to everybody on the head (``hub_node``).  It needs no
control plane, and what it has to remember lies in files: when it is killed, training goes on, and the next one finds
every node dialling again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import signal
import sys
from importlib import metadata
from pathlib import Path

from elastane import __version__
from elastane.engines.local.json_files import Lock, read_json, write_json
from elastane.engines.local.paths import Layout
from elastane.engines.local.survive_errors import Trouble
from elastane.engines.nodes.hub_logs import HubLogs
from elastane.engines.nodes.hub_node import RemoteNode
from elastane.engines.nodes.hub_packages import HubPackages
from elastane.engines.nodes.joining import Admission, admission
from elastane.engines.nodes.line import HANDSHAKE_S, NodeLine, admitted
from elastane.engines.nodes.log_parts import LogPart
from elastane.engines.nodes.messages import (
    FIRST_OF_NODE,
    FROM_NODE,
    PROTOCOL,
    Answer,
    Beat,
    Ended,
    Farewell,
    FromNode,
    Leaving,
    NodeHello,
    Opened,
    PackageHello,
    Refused,
    TunnelHello,
    Welcome,
)
from elastane.engines.nodes.obligations import is_attempt, is_joined, is_stale, promised
from elastane.engines.nodes.places import HUB, advertised, parse_address
from elastane.engines.nodes.tunnels import splice
from elastane.errors import ElastaneError
from elastane.train.coordinator import wire
from elastane.train.coordinator.leases import BEAT_S, LEASE_S
from elastane.train.coordinator.login_reader import BUFFER_BYTES, LineReader

log = logging.getLogger("elastane")
_LOOK_S = 0.25
_CONNECT_S = 5.0
_FORGET_S = 24 * 3600.0
"""A node that was away for so long, and has nothing left to end, is not waited for any more."""
_BIND_S, _AGAIN_S = 5.0, 0.2
"""How long the port may still be taken, by a hub that is just ending."""


def own_versions() -> dict[str, str]:
    """The versions of this process that have to fit those of the other machines; PyTorch is not imported for it."""
    torch = ""
    with contextlib.suppress(metadata.PackageNotFoundError):
        torch = metadata.version("torch")
    return {"elastane": __version__, "python": platform.python_version(), "torch": torch}


def misfit(head: dict[str, str], node: dict[str, str]) -> str:
    """Why a node of these versions may get no work, if so.

    >>> misfit({"elastane": "1", "python": "3.11.7"}, {"elastane": "1", "python": "3.12.1"})
    'it has Python 3.12.1, the head 3.11.7: the first two numbers must be the same'
    """
    ours, theirs = head.get("elastane", ""), node.get("elastane", "")
    if ours != theirs:
        return f"it has Elastane {theirs or 'of an unknown version'}, the head {ours}: they must be the same"
    for key, name in (("python", "Python"), ("torch", "PyTorch")):
        ours, theirs = head.get(key, ""), node.get(key, "")
        if ours and not theirs:
            return f"it has no {name}, the head has {ours}"
        if ours and ours.split(".")[:2] != theirs.split(".")[:2]:
            return f"it has {name} {theirs}, the head {ours}: the first two numbers must be the same"
    return ""


class Hub:
    """Takes nodes in, and carries what they and the head have to say to each other."""

    def __init__(self, layout: Layout, admits: Admission, lease_s: float = LEASE_S) -> None:
        self._layout, self._admits, self._lease_s = layout, admits, lease_s
        self._nodes: dict[str, RemoteNode] = {}
        self._versions = own_versions()
        self._logs, self._packages = HubLogs(layout), HubPackages(layout)
        self._over = asyncio.Event()
        self._trouble = Trouble("the hub stumbled")

    async def run(self, listen: str) -> None:
        """Until somebody says stop; where it listens is written down once it does."""
        host, port = parse_address(listen, "--listen")
        for name in self._layout.nodes():
            if is_joined(self._layout, name):
                self._nodes[name] = RemoteNode(self._layout, name, self._logs)
                await self._nodes[name].open()
        before = read_json(self._layout.hub / HUB) or {}
        wanted = int(before.get("port", 0)) if not port and before.get("listen") == listen else port
        server = await self._bind(host, wanted, exactly=bool(port))
        facts = {
            "listen": listen,
            "address": advertised(host),
            "port": server.sockets[0].getsockname()[1],
            "pid": os.getpid(),
            "sha256": self._admits.fingerprint,
        }
        write_json(self._layout.hub / HUB, facts)
        tasks = [asyncio.create_task(self._look()), asyncio.create_task(self._beat())]
        await self._over.wait()
        for task in tasks:
            task.cancel()
        server.close()
        for node in self._nodes.values():
            if node.line is not None:
                node.line.abort()
            node.abort_tunnels()
            node.close()

    def stop(self) -> None:
        """Leave; nodes go on, and dial again."""
        self._over.set()

    async def _bind(self, host: str, port: int, *, exactly: bool) -> asyncio.Server:
        """Listen; nodes remember the port, so one that was ours is waited for."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + _BIND_S
        while True:
            try:
                return await asyncio.start_server(
                    self._serve,
                    host,
                    port,
                    limit=BUFFER_BYTES,
                    ssl=self._admits.context(),
                    ssl_handshake_timeout=HANDSHAKE_S,
                    ssl_shutdown_timeout=1.0,
                )
            except OSError as error:
                if clock() > deadline:
                    if exactly:
                        why = error.strerror or str(error)
                        raise ElastaneError(f"--listen: {host}:{port} cannot be listened on: {why}") from error
                    port = 0
            await asyncio.sleep(_AGAIN_S)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            for node in list(self._nodes.values()):
                with self._trouble.logged():
                    node.look()
                    if node.away_s() > _FORGET_S:
                        node.forget()
                        del self._nodes[node.name]

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            for node in self._nodes.values():
                node.beat()
            with contextlib.suppress(OSError):
                os.utime(self._layout.hub / HUB)  # whoever started us sees that we run

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = LineReader(reader)
        wire.watch_transport(writer)
        try:
            if await admitted(lines, writer, self._admits.secret):
                line = NodeLine(lines, writer, self._lease_s)
                match await line.first(FIRST_OF_NODE):
                    case NodeHello() as hello:
                        await self._stay(hello, line)
                    case TunnelHello(session, port):
                        await self._carry(session, port, lines, writer)
                    case PackageHello(session, digest):
                        await self._packages.send(digest, self._of(session), lines.stream, writer)
        except (OSError, ValueError):  # it broke, or made no sense
            pass
        finally:
            writer.close()

    # Nodes.

    async def _stay(self, hello: NodeHello, line: NodeLine) -> None:
        refusal = self._refusal(hello)
        if refusal is not None:
            line.send(refusal)
            await line.close()
            return
        node = self._nodes.get(hello.node)
        if node is None:
            node = self._nodes[hello.node] = RemoteNode(self._layout, hello.node, self._logs)
            await node.open()
        end = sorted(self._to_end(hello))
        unfit = misfit(self._versions, hello.versions)
        # The line may not have ended by the time its successor is there: the successor is what counts.
        line.send(self._welcome(node, hello, line, end, unfit))
        log.info(
            "node %s has joined from %s%s", hello.node, hello.address, f"; unfit: {unfit}" if unfit else ""
        )
        works = [
            asyncio.create_task(work) for work in (line.keep(), node.look_around(line), node.tell_logs(line))
        ]
        try:
            async for message in line.messages(FROM_NODE):
                if node.line is not line:
                    break
                await self._hear(node, message)
        finally:
            for work in works:
                work.cancel()
            left = node.file is None
            node.lost(line)
            how = "has left" if left else "is lost: " + ("it is silent" if line.silent else "its line ended")
            log.info("node %s %s", hello.node, how)

    def _welcome(
        self, node: RemoteNode, hello: NodeHello, line: NodeLine, end: list[str], unfit: str
    ) -> Welcome:
        node.accept(hello, line, end, unfit)
        return Welcome(node.session, self._admits.cluster, self._lease_s, tuple(end), unfit)

    async def _hear(self, node: RemoteNode, message: FromNode) -> None:
        match message:
            case LogPart():
                await node.take(message)
            case Answer(number, body):
                node.answered(number, body)
            case Ended(attempt):
                node.ended(attempt)
            case Leaving(in_s):
                node.leaving(in_s)
            case Farewell():
                node.forget()
                self._nodes.pop(node.name, None)
            case Beat():
                pass  # that it spoke is all it says

    def _refusal(self, hello: NodeHello) -> Refused | None:
        """Why a node may not come in, if so."""
        name, node = hello.node, self._nodes.get(hello.node)
        if hello.protocol != PROTOCOL:
            versions = f"Elastane {hello.versions.get('elastane', '?')}, the head {self._versions['elastane']}"
            return Refused(f"this machine has {versions}: install the same version on both", "version")
        if node is None:
            if self._layout.node(name).exists():
                return Refused(f"the head has a node {name} of its own; choose another --name", "own")
            return None
        if node.file is None or node.file.hello.incarnation == hello.incarnation:
            return None
        if hello.incarnation in node.file.former:
            return Refused(f"another process has joined as node {name} since", "superseded")
        if node.line is not None:
            there = f"node {name} is there already, at {node.file.hello.address}"
            return Refused(f"{there}; choose another --name, or end it first", "taken")
        return None

    def _to_end(self, hello: NodeHello) -> set[str]:
        """Attempts that a node has to end before it counts."""
        mine = [attempt for attempt in hello.attempts if is_attempt(attempt)]
        if hello.cluster not in ("", self._admits.cluster):
            return set(mine)  # they are another cluster's, which it has left
        return promised(self._layout, hello.node) | {name for name in mine if is_stale(self._layout, name)}

    def _of(self, session: str) -> RemoteNode | None:
        """Whose line is called that."""
        return next((node for node in self._nodes.values() if node.session == session and session), None)

    # Tunnels.

    async def _carry(self, session: str, port: int, lines: LineReader, writer: asyncio.StreamWriter) -> None:
        node = self._of(session)
        if node is None or not node.may_reach(port):
            writer.write(wire.encode_message(Refused("no supervisor of this node's attempts listens there")))
            return
        node.tunnels.add(writer)
        try:
            async with asyncio.timeout(_CONNECT_S):
                inner, outer = await asyncio.open_connection("127.0.0.1", port, limit=BUFFER_BYTES)
            wire.watch_transport(outer)
            writer.write(wire.encode_message(Opened()))
            outer.write(lines.rest())
            await splice((lines.stream, writer), (inner, outer))
        finally:
            node.tunnels.discard(writer)


async def _main(home: str, listen: str) -> None:
    layout = Layout(Path(home))
    layout.hub.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = Lock(layout.hub_lock)
    if not lock.take():
        return  # another one is here already
    hub = Hub(layout, admission(layout.hub))
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, hub.stop)
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    await hub.run(listen)


def main(home: str, listen: str) -> None:
    """The process: what went wrong is the last line of what it prints."""
    os.umask(0o077)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        asyncio.run(_main(home, listen))
    except ElastaneError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
