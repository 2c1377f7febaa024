"""A fork server that cannot start workers: the job fails at once, says how to mend it, and touches nobody else."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from elastane.train.coordinator import wire
from elastane.train.coordinator.login_reader import LineReader, log_in
from elastane.train.coordinator.script_kind import JobKind
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.spawners import Parentage, start_fork_server
from elastane.train.coordinator.supervisor import JobOptions, Supervisor
from elastane.train.errors import TrainError


class Elsewhere:
    """Fork servers that somebody else starts, with an interpreter that has no PyTorch; there is always hope."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.started: list[subprocess.Popen[bytes]] = []
        (folder / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')")

    def ask(self, node: str, parentage: Parentage) -> None:
        if not self.started:
            with (self._folder / "nursery.log").open("ab") as log:
                hidden = {"PYTHONPATH": str(self._folder)}
                self.started.append(start_fork_server(parentage, node, log, hidden))

    def lost(self, node: str) -> None:
        """Nobody here falls silent."""

    def cut_off(self, node: str) -> bool:
        return False

    def log_comes(self, node: str) -> None:
        pass

    def problem(self) -> str:
        return ""

    async def end(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()


def _options(folder: Path, kind: JobKind = JobKind.ADAPTIVE) -> JobOptions:
    script = folder / "script.py"
    script.write_text("print('never reached')")
    return JobOptions(
        str(script), run=folder / "run", settings=Settings(workers=1), directory=folder, kind=kind
    )


@pytest.mark.parametrize("kind", [JobKind.ADAPTIVE, JobKind.RESIZABLE])
def test_without_pytorch_a_job_fails_with_the_line_that_mends_it(tmp_path: Path, kind: JobKind) -> None:
    fork_servers = Elsewhere(tmp_path)
    supervisor = Supervisor(_options(tmp_path, kind), lambda _: None, lambda _: None, fork_servers)
    with pytest.raises(TrainError, match=r"pip install 'elastane\[torch\]'"):
        asyncio.run(asyncio.wait_for(supervisor.run(), 120))
    assert [process.poll() is not None for process in fork_servers.started] == [True]


class Stranger:
    """A fork server on another host: it names a process that here belongs to somebody else, and then fails."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._failed = False
        self._task: asyncio.Task[None] | None = None

    def ask(self, node: str, parentage: Parentage) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._talk(node, parentage))

    async def _talk(self, node: str, parentage: Parentage) -> None:
        reader, writer = await asyncio.open_connection(*wire.address(parentage.endpoint))
        await log_in(LineReader(reader), writer, "nursery", parentage.token)
        hello = {"type": "hello", "node": node}
        writer.write(wire.encode({**hello, "pids": {"w1": self._pid}}))
        await writer.drain()
        await asyncio.sleep(0.2)
        self._failed = True
        writer.close()

    def lost(self, node: str) -> None:
        """Nobody here falls silent."""

    def cut_off(self, node: str) -> bool:
        return False

    def log_comes(self, node: str) -> None:
        pass

    def problem(self) -> str:
        return "its host is broken" if self._failed else ""

    async def end(self) -> None:
        """Nothing of ours is there."""


def test_a_process_id_of_another_host_is_never_signalled(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        supervisor = Supervisor(_options(tmp_path), lambda _: None, lambda _: None, Stranger(bystander.pid))
        with pytest.raises(TrainError, match="its host is broken"):
            asyncio.run(asyncio.wait_for(supervisor.run(), 120))
        os.kill(bystander.pid, 0)
        assert bystander.poll() is None
        bystander.communicate(b"\n")
    assert bystander.returncode == 0
