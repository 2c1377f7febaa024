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
from elastane.train.control.last_words import last_words
from elastane.train.control.nurseries import AT_BIRTH, CANNOT_IMPORT, nursery_command, without_ours
from elastane.train.control.nursery import LEASHED, WAITING

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
        self._elsewhere: dict[str, tuple[str, Path]] = {}
        """Interpreters other than ours and the logs of the nurseries there, by attempt."""
        self._hopeless: dict[str, str] = {}
        """Why there can be no nursery for an attempt."""
        self._spare: subprocess.Popen[bytes] | None = None
        self._over = asyncio.Event()

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
        reaper = asyncio.create_task(self._reap())
        await self._over.wait()
        reaper.cancel()
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
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if self._trusts(wire.decode(await lines.first())):
                while (message := wire.decode(await lines.next())) is not None:
                    writer.write(wire.encode(self._answer(message)))
        writer.close()

    def _trusts(self, hello: Mapping[str, Any] | None) -> bool:
        if hello is None or hello["type"] != "hello":
            return False
        return hmac.compare_digest(str(hello.get("token", "")).encode(), self._token.encode())

    def _answer(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        match message["type"]:
            case "nursery":
                return self._begin(message)
            case "hope":
                return self._hope(str(message["attempt"]))
            case "end":
                nursery = self._nurseries.get(str(message["attempt"]))
                if nursery is not None:
                    nursery.kill()
                    nursery.wait()  # its workers die with it, before anybody is told
                self._hopeless.pop(str(message["attempt"]), None)
            case "status":
                spare = self._spare.pid if self._spare is not None else None
                nurseries = {attempt: nursery.pid for attempt, nursery in self._nurseries.items()}
                return {"type": "status", "nurseries": nurseries, "spare": spare}
            case "shutdown":
                self._over.set()
            case _:
                return {"type": "unknown"}
        return {"type": "ok"}

    def _begin(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Have a nursery for an attempt, or say why its interpreter can be none."""
        attempt, log, python = str(message["attempt"]), str(message["log"]), str(message.get("python", ""))
        self._bury(attempt)
        if attempt not in self._hopeless:
            try:
                self._start(attempt, message["environment"], log, bool(message["cold"]), python)
            except OSError as error:
                self._hopeless[attempt] = f"{python or sys.executable}: {error.strerror}"
        return self._hope(attempt)

    def _hope(self, attempt: str) -> Mapping[str, Any]:
        problem = self._hopeless.get(attempt)
        return {"type": "ok"} if problem is None else {"type": "hopeless", "problem": problem}

    def _bury(self, attempt: str) -> bool:
        """Let go of a nursery that has ended; one that ended by its own choice would do so again."""
        nursery = self._nurseries.get(attempt)
        if nursery is None or nursery.poll() is None:
            return False
        del self._nurseries[attempt]
        elsewhere = self._elsewhere.pop(attempt, None)
        if elsewhere is not None and nursery.returncode > 0:
            self._hopeless[attempt] = _why_hopeless(*elsewhere, nursery.returncode)
        return True

    def _start(
        self, attempt: str, environment: Mapping[str, str], log: str, cold: bool, python: str = ""
    ) -> None:
        if attempt in self._nurseries:
            return
        given = {
            **environment,
            MARK: str(Mark(name_of(self._layout.home), attempt, self._node, self._name)),
        }
        spare = self._spare if _born_alike(environment, python) else None
        if python:
            self._elsewhere[attempt] = python, Path(log)
        if not cold and spare is not None and spare.poll() is None and not environment.get("ELASTANE_PRELOAD"):
            assert spare.stdin is not None
            self._spare = None
            spare.stdin.write(json.dumps(given).encode() + b"\n")
            spare.stdin.close()
            self._nurseries[attempt] = spare
            asyncio.get_running_loop().call_later(1.0, self._keep_one_warm)
        else:
            self._nurseries[attempt] = self._spawn(given, Path(log), cold=cold, waiting=False, python=python)

    def _keep_one_warm(self) -> None:
        if self._spare is None and not self._over.is_set():
            mark = Mark(name_of(self._layout.home), SPARE, self._node, self._name)
            log = self._layout.node(self._node) / "nursery.log"
            self._spare = self._spawn({MARK: str(mark), **_THREADS}, log, cold=False, waiting=True)

    def _spawn(
        self, environment: Mapping[str, str], log: Path, *, cold: bool, waiting: bool, python: str = ""
    ) -> subprocess.Popen[bytes]:
        leash = {LEASHED: str(os.getpid()), **({WAITING: "1"} if waiting else {})}
        base = without_ours(for_jobs(os.environ)) if python else for_jobs(os.environ)
        with log.open("ab") as output:
            return subprocess.Popen(  # noqa: S603
                nursery_command(cold=cold, python=python),
                env={**base, **environment, **leash},
                stdin=subprocess.PIPE if waiting else subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(_REAP_S)
            for attempt in list(self._nurseries):
                if self._bury(attempt):
                    kill_marked(self._layout.home, lambda m, a=attempt: (m.node, m.attempt) == (self._node, a))  # type: ignore[misc]
            if self._spare is not None and self._spare.poll() is not None:
                self._spare = None  # not warmed again by itself: it would fail again


def _why_hopeless(python: str, log: Path, code: int) -> str:
    """Why an interpreter can be no nursery, in one line, by what it said last."""
    words = last_words(log).removeprefix("elastane: error: ")
    if code == CANNOT_IMPORT:
        remedy = f"{python} -m pip install 'elastane[torch]'"
        return f"{python} cannot import elastane.train ({words}); install it with: {remedy}"
    return words or f"{python} ended with exit code {code}"


def _born_alike(environment: Mapping[str, str], python: str) -> bool:
    """Whether the nursery that waits is what an attempt's own would be."""
    ours = for_jobs(os.environ)
    return not python and all(environment.get(name, ours.get(name)) == ours.get(name) for name in AT_BIRTH)


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
