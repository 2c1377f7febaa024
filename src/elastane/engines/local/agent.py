"""The process of one node: it owns the nurseries of all attempts there, and with them every worker.

It lives in a session of its own, so that the control plane may come and go.  When it dies, everything on its node
dies with it (each nursery is on its agent's leash, each worker on its nursery's), which is what the loss of a
machine looks like.  It keeps one nursery warm in advance, so that a job need not wait for PyTorch to be imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elastane.engines.local.environment import for_jobs
from elastane.engines.local.files import Lock, write_json
from elastane.engines.local.layout import Layout
from elastane.engines.local.sweep import MARK, Mark, kill_marked, name_of
from elastane.train.control import wire
from elastane.train.control.admission import BUFFER_BYTES, LineReader
from elastane.train.control.nurseries import nursery_command
from elastane.train.control.nursery import LEASHED, WAITING
from elastane.train.control.silence import BEAT_S

SPARE = "-"
"""The attempt of a nursery that does not know its own yet."""
_REAP_S = 0.25
_THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Agent:
    """One node's nurseries."""

    def __init__(self, layout: Layout, node: str) -> None:
        self._layout = layout
        self._node = node
        self._name = secrets.token_hex(8)
        self._token = secrets.token_hex(16)
        self._nurseries: dict[str, subprocess.Popen[bytes]] = {}
        self._spare: subprocess.Popen[bytes] | None = None
        self._over = asyncio.Event()
        self._watchers: set[asyncio.StreamWriter] = set()

    async def run(self) -> None:
        """Until somebody says stop."""
        kill_marked(self._layout.home, lambda mark: mark.node == self._node)
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=BUFFER_BYTES)
        port = server.sockets[0].getsockname()[1]
        facts = {
            "host": "127.0.0.1",
            "port": port,
            "token": self._token,
            "pid": os.getpid(),
            "name": self._name,
        }
        self._keep_one_warm()
        write_json(self._layout.agent(self._node), facts)
        tasks = [asyncio.create_task(work) for work in (self._reap(), self._beat())]
        await self._over.wait()
        for task in tasks:
            task.cancel()
        server.close()
        self._layout.agent(self._node).unlink(missing_ok=True)
        for nursery in [*self._nurseries.values(), *filter(None, [self._spare])]:
            nursery.kill()
            nursery.wait()
        kill_marked(self._layout.home, lambda mark: mark.agent == self._name)

    def stop(self) -> None:
        """Leave, and take everything along."""
        self._over.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = LineReader(reader)
        wire.watch_transport(writer)
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if self._trusts(wire.decode(await lines.first())):
                while (message := wire.decode(await lines.next())) is not None:
                    if message["type"] == "watch":
                        self._watchers.add(writer)
                    writer.write(wire.encode(self._answer(message)))
        self._watchers.discard(writer)
        writer.close()

    async def _beat(self) -> None:
        """Signs of life for whoever watches, from the loop that does the work."""
        beat = wire.encode({"type": "beat"})
        while True:
            await asyncio.sleep(BEAT_S)
            for writer in self._watchers:
                writer.write(beat)

    def _trusts(self, hello: Mapping[str, Any] | None) -> bool:
        if hello is None or hello["type"] != "hello":
            return False
        return hmac.compare_digest(str(hello.get("token", "")).encode(), self._token.encode())

    def _answer(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        match message["type"]:
            case "nursery":
                self._start(
                    str(message["attempt"]), message["environment"], str(message["log"]), bool(message["cold"])
                )
            case "end":
                nursery = self._nurseries.get(str(message["attempt"]))
                if nursery is not None:
                    nursery.kill()
                    nursery.wait()  # its workers die with it, before anybody is told
            case "status" | "watch":
                spare = self._spare.pid if self._spare is not None else None
                nurseries = {attempt: nursery.pid for attempt, nursery in self._nurseries.items()}
                return {"type": "status", "nurseries": nurseries, "spare": spare}
            case "shutdown":
                self._over.set()
            case _:
                return {"type": "unknown"}
        return {"type": "ok"}

    def _start(self, attempt: str, environment: Mapping[str, str], log: str, cold: bool) -> None:
        if attempt in self._nurseries and self._nurseries[attempt].poll() is None:
            return
        given = {
            **environment,
            MARK: str(Mark(name_of(self._layout.home), attempt, self._node, self._name)),
        }
        spare = self._spare
        if not cold and spare is not None and spare.poll() is None and not environment.get("ELASTANE_PRELOAD"):
            assert spare.stdin is not None
            self._spare = None
            spare.stdin.write(json.dumps(given).encode() + b"\n")
            spare.stdin.close()
            self._nurseries[attempt] = spare
            asyncio.get_running_loop().call_later(1.0, self._keep_one_warm)
        else:
            self._nurseries[attempt] = self._spawn(given, Path(log), cold=cold, waiting=False)

    def _keep_one_warm(self) -> None:
        if self._spare is None and not self._over.is_set():
            mark = Mark(name_of(self._layout.home), SPARE, self._node, self._name)
            log = self._layout.node(self._node) / "nursery.log"
            self._spare = self._spawn({MARK: str(mark), **_THREADS}, log, cold=False, waiting=True)

    def _spawn(
        self, environment: Mapping[str, str], log: Path, *, cold: bool, waiting: bool
    ) -> subprocess.Popen[bytes]:
        leash = {LEASHED: str(os.getpid()), **({WAITING: "1"} if waiting else {})}
        with log.open("ab") as output:
            return subprocess.Popen(  # noqa: S603
                nursery_command(cold=cold),
                env={**for_jobs(os.environ), **environment, **leash},
                stdin=subprocess.PIPE if waiting else subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(_REAP_S)
            for attempt, nursery in list(self._nurseries.items()):
                if nursery.poll() is not None:
                    del self._nurseries[attempt]
                    kill_marked(self._layout.home, lambda m, a=attempt: (m.node, m.attempt) == (self._node, a))  # type: ignore[misc]
            if self._spare is not None and self._spare.poll() is not None:
                self._spare = None  # not warmed again by itself: it would fail again


async def _main(home: str, node: str) -> None:
    layout = Layout(Path(home))
    layout.node(node).mkdir(parents=True, exist_ok=True)
    lock = Lock(layout.agent_lock(node))
    if not lock.take():
        return  # another one is here already
    agent = Agent(layout, node)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, agent.stop)
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    await agent.run()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2]))
