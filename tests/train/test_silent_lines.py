"""Real processes that fall silent: a frozen fork server, a script that hangs before it connects, a group kept apart."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from elastane.train.coordinator import wire
from elastane.train.coordinator.login_reader import LineReader, log_in
from elastane.train.coordinator.script_kind import JobKind
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.spawners import OwnForkServer, Parentage
from elastane.train.coordinator.supervisor import JobOptions, Supervisor
from elastane.train.reports.events import Event, Warned, WorkerLost
from train.running import PATIENCE_S, SCRIPTS, processes_of, train


def test_a_script_that_hangs_before_it_connects_is_given_up_with_the_cause(tmp_path: Path) -> None:
    script = tmp_path / "hangs.py"
    script.write_text("import time; time.sleep(3600)\nimport elastane.train as et\net.init()")
    done = train(script, tmp_path / "run", settings=Settings(workers=1, hello_s=0.5))
    assert done.ended.outcome == "failed"
    assert "did not come to et.init() within 0.5 s" in done.ended.cause
    assert processes_of(tmp_path / "run") == []


@pytest.mark.slow
def test_a_first_group_whose_members_cannot_reach_each_other_says_so(tmp_path: Path) -> None:
    script = tmp_path / "apart.py"
    mute = (
        "import os\nfrom elastane.train.worker import group\n"
        "from elastane.train.worker.coordinator_client import CoordinatorClient\n"
        "group.Group.__init__.__defaults__ = (2.0, '')\n"
        "if os.environ['ELASTANE_WORKER'] == 'w2':\n    CoordinatorClient.put_address = lambda *_: None\n"
    )
    script.write_text(mute + (SCRIPTS / "counting.py").read_text())
    done = train(script, tmp_path / "run", str(tmp_path / "out"), workers=2)
    assert done.ended.outcome == "failed"
    assert "at 127.0.0.1 could not be connected with" in done.ended.cause
    assert {"w1", "w2"} <= set(done.ended.cause.split())  # whoever noticed first
    assert processes_of(tmp_path / "run") == []


@pytest.mark.slow
def test_a_frozen_fork_server_is_replaced_and_training_goes_on_from_the_checkpoint(tmp_path: Path) -> None:
    run, out, events = tmp_path / "run", tmp_path / "out", list[Event]()
    options = JobOptions(
        script=str(SCRIPTS / "counting.py"),
        arguments=(str(out), "--pause=0.005"),
        run=run,
        settings=Settings(workers=2, lease_s=4.0),
        environment={"ELASTANE_MODE": "fixed"},
        directory=tmp_path,
    )
    fork_servers = OwnForkServer(run)
    supervisor = Supervisor(options, events.append, lambda _: None, fork_servers)

    async def freeze() -> None:
        while not supervisor.settled or not list((run / "checkpoints").glob("step-*")):
            await asyncio.sleep(0.05)
        assert fork_servers.process is not None
        os.kill(fork_servers.process.pid, signal.SIGSTOP)  # its workers are well, but nobody can end them
        while sum(isinstance(event, WorkerLost) for event in events) < 2 or not supervisor.settled:
            await asyncio.sleep(0.05)
        (run / "enough").touch()

    async def story() -> None:
        freezing = asyncio.create_task(freeze())
        ended = await asyncio.wait_for(supervisor.run(), PATIENCE_S)
        await freezing
        assert ended.outcome == "finished", ended

    asyncio.run(story())
    assert [e.text for e in events if isinstance(e, Warned) and "gave no sign of life" in e.text]
    assert set(out.read_text().split()) == {"1"}
    assert processes_of(run) == []


class Far:
    """Fork servers of two other hosts that start nothing, but keep what they are told; rank 0's comes last."""

    def __init__(self) -> None:
        self.environments: dict[str, Mapping[str, str]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._other_is_there = asyncio.Event()

    def ask(self, node: str, parentage: Parentage) -> None:
        if node not in self._tasks:
            self._tasks[node] = asyncio.create_task(self._serve(node, parentage))

    async def _serve(self, node: str, parentage: Parentage) -> None:
        if node == "n0":
            await self._other_is_there.wait()
        reader, writer = await asyncio.open_connection(*wire.address(parentage.endpoint))
        await log_in(LineReader(reader), writer, "nursery", parentage.token)
        hello = {"type": "hello", "node": node, "pids": {}}
        writer.write(wire.encode({**hello, "host": f"10.0.0.{node[1:]}"}))
        if node == "n1":
            await asyncio.sleep(0.3)
            self._other_is_there.set()
        while line := await reader.readline():
            message: dict[str, Any] = wire.decode(line) or {"type": ""}
            if message["type"] == "spawn":
                worker = message["order"]["worker"]
                self.environments[worker] = message["order"]["environment"]
                writer.write(wire.encode({"type": "started", "worker": worker, "pid": 1}))
                writer.write(wire.encode({"type": "exited", "worker": worker, "code": 0}))
            elif message["type"] == "stop":
                break
        writer.close()

    def lost(self, node: str) -> None:
        raise AssertionError(node)

    def cut_off(self, node: str) -> bool:
        return False

    def log_comes(self, node: str) -> None:
        pass

    def problem(self) -> str:
        return ""

    async def end(self) -> None:
        for task in self._tasks.values():
            task.cancel()


def test_a_gang_meets_at_the_node_of_its_first_rank(tmp_path: Path) -> None:
    async def story() -> Far:
        far = Far()
        options = JobOptions(
            program=("true",),
            places={"n0": 1, "n1": 1},
            run=tmp_path / "run",
            settings=Settings(workers=2),
            kind=JobKind.RESIZABLE,
        )
        ended = await asyncio.wait_for(
            Supervisor(options, lambda _: None, lambda _: None, far).run(), PATIENCE_S
        )
        assert ended.outcome == "finished"
        return far

    far = asyncio.run(story())
    assert {w: e["MASTER_ADDR"] for w, e in far.environments.items()} == {"w1": "10.0.0.0", "w2": "10.0.0.0"}
    assert {e["RANK"]: e["GROUP_RANK"] for e in far.environments.values()} == {"0": "0", "1": "1"}
