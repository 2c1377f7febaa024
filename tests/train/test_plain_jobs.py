"""Scripts that know nothing of us, run as real processes from start to end."""

from __future__ import annotations

import asyncio
import os
import random
import re
import select
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from elastane.train.coordinator.control_file import control_of
from elastane.train.coordinator.login import connect
from elastane.train.coordinator.messages import TO_CLIENT, FromClient, Ok, StopJob, ToClient
from elastane.train.coordinator.script_kind import JobKind
from elastane.train.coordinator.scripted_events import Wish
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.supervisor import JobOptions, Supervisor
from elastane.train.errors import TrainError
from elastane.train.exit_cause import NODE_LOST
from elastane.train.reports.event_file import load_run
from elastane.train.reports.events import Ended, Event, Resized, WorkerLost

EXAMPLE = Path(__file__).parents[2] / "examples" / "torchrun_digits.py"
PATIENCE_S = 120.0
"""Only a job that hangs takes so long, even on a busy machine."""


class Watched:
    """A job under a supervisor, with everything it says."""

    def __init__(
        self,
        folder: Path,
        workers: int,
        *arguments: str,
        script: Path = EXAMPLE,
        kind: JobKind = JobKind.RESIZABLE,
    ) -> None:
        self.run = folder / "run"
        self.lines: list[str] = []
        self._news = asyncio.Event()
        self.supervisor = Supervisor(
            JobOptions(
                script=str(script),
                arguments=arguments,
                run=self.run,
                settings=Settings(workers=workers),
                directory=folder,
                preload=("sklearn.datasets",) if kind is JobKind.RESIZABLE else (),
                kind=kind,
            ),
            self._hear,
            self._read,
        )

    def _hear(self, event: Event) -> None:
        self._news.set()

    def _read(self, line: str) -> None:
        self.lines.append(line)
        self._news.set()

    def said(self, pattern: str) -> list[re.Match[str]]:
        return [found for line in self.lines if (found := re.fullmatch(pattern, line))]

    async def until(self, happened: Callable[[], object]) -> None:
        while not happened():
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), PATIENCE_S)

    def do(self, action: str, workers: int = 0) -> None:
        self.supervisor.grant(Wish(0.0, action, workers), random.Random(0))

    async def to_the_end(self, story: Callable[[Watched], Awaitable[None]]) -> Ended:
        job = asyncio.create_task(self.supervisor.run())
        told = asyncio.ensure_future(story(self))
        await asyncio.wait({job, told}, return_when=asyncio.FIRST_COMPLETED)
        assert told.done(), f"the job ended before its story: {self.lines[-3:]}"
        await told
        return await asyncio.wait_for(job, PATIENCE_S)

    def left_behind(self) -> list[int]:
        assert self.supervisor._server is not None
        assert self.supervisor._fork_servers.process is not None
        return [
            pid
            for pid in (*self.supervisor._server.pids.values(), self.supervisor._fork_servers.process.pid)
            if alive(pid)
        ]


def alive(pid: int) -> bool:
    """Whether a process is there and does not end at once; one that nobody has waited for counts as gone."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    readable, _, _ = select.select([handle], [], [], 1.0)
    os.close(handle)
    return not readable


def ask(run: Path, message: FromClient) -> ToClient:
    control = control_of(run)
    connection = connect(control["host"], control["port"], "client", control["token"])
    connection.send(message)
    answer = next(connection.messages(TO_CLIENT))
    connection.close()
    return answer


@pytest.mark.slow
def test_a_torchrun_script_goes_on_from_its_checkpoint_after_a_resize(tmp_path: Path) -> None:
    async def story(job: Watched) -> None:
        await job.until(lambda: job.said("epoch 0: .* with 1 workers"))
        job.do("resize", 2)
        await job.until(lambda: job.said("epoch .* with 2 workers"))

    async def main() -> tuple[Watched, Ended]:
        job = Watched(tmp_path, 1, "--epochs", "40")
        return job, await job.to_the_end(story)

    job, ended = asyncio.run(main())
    assert (ended.outcome, ended.cause) == ("finished", "")
    first, second = (int(found[1]) for found in job.said(r"begin with epoch (\d+), \d workers"))
    assert first == 0
    assert second > 0
    before = [int(found[1]) for found in job.said(r"epoch (\d+): .* with 1 workers")]
    after = [int(found[1]) for found in job.said(r"epoch (\d+): .* with 2 workers")]
    assert after == list(range(second, 40))
    # It may have been stopped after it saved an epoch, and before it said so.
    assert before in (list(range(second)), list(range(second - 1)))
    resizes = [event for event in load_run(job.run) if isinstance(event, Resized)]
    assert [(each.kind, each.before, each.after) for each in resizes] == [("start", 0, 1), ("grow", 1, 2)]
    assert job.left_behind() == []


@pytest.mark.slow
def test_a_torchrun_script_survives_a_death_and_can_be_stopped(tmp_path: Path) -> None:
    async def story(job: Watched) -> None:
        await job.until(lambda: job.said("epoch 0: .*"))
        job.do("kill")
        await job.until(lambda: len(job.said("begin with .*")) == 2)
        assert await asyncio.to_thread(ask, job.run, StopJob("enough")) == Ok()

    async def main() -> tuple[Watched, Ended]:
        job = Watched(tmp_path, 2, "--epochs", "100000")
        return job, await job.to_the_end(story)

    job, ended = asyncio.run(main())
    assert (ended.outcome, ended.cause) == ("stopped", "enough")
    events = load_run(job.run)
    (lost,) = (event for event in events if isinstance(event, WorkerLost))
    assert lost.cause.startswith("killed by signal 9")
    assert [event.kind for event in events if isinstance(event, Resized)] == ["start", "recover"]
    assert int(job.said(r"begin with epoch (\d+), 2 workers")[1][1]) > 0
    assert job.left_behind() == []


class NodeLost(Exception):
    """A job failed with its node."""


async def lost_in(ending: Awaitable[Ended]) -> None:
    ended = await ending
    if ended.outcome == "failed":
        raise NodeLost(ended.cause)


@pytest.mark.slow
def test_workers_do_not_outlive_the_process_that_started_them(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text("import signal\nprint('here')\nsignal.pause()")

    async def story(job: Watched) -> None:
        await job.until(lambda: job.said("here"))
        assert job.supervisor._fork_servers.process is not None
        job.supervisor._fork_servers.process.send_signal(signal.SIGKILL)

    async def main() -> None:
        job = Watched(tmp_path, 2, script=script, kind=JobKind.COMMAND)
        causes = (
            TrainError,
            NodeLost,
        )  # whichever is seen first: the end of the fork server, or of its connection
        with pytest.raises(causes, match=f"workers cannot be started|{NODE_LOST}"):
            await lost_in(job.to_the_end(story))
        assert job.left_behind() == []

    asyncio.run(main())


FAILING = """
import os, signal, sys
from pathlib import Path
folder, rank = Path(sys.argv[1]), os.environ["RANK"]
(folder / rank).write_text(f"{os.getpid()} {os.getppid()}")
with (folder / "both").open("w" if rank == "0" else "r"):  # a pipe opens when both are there
    pass
if rank == "1":
    raise ValueError("there is no mauve")
signal.pause()
"""


def elastane(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from elastane.cli.main import main; main()", "train", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)


@pytest.mark.slow
def test_a_failing_worker_ends_a_command_with_its_cause(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(FAILING)
    os.mkfifo(tmp_path / "both")
    done = elastane(tmp_path, "--workers", "2", "--run", "run", "job.py", str(tmp_path))
    assert done.returncode == 1, done.stderr
    cause = "worker w2 (rank 1): exit code 1; its last words: ValueError: there is no mauve"
    assert f"elastane: failed: {cause}" in done.stderr
    assert "kind: command, because it uses neither elastane.train nor torch.distributed" in done.stderr
    ended = load_run(tmp_path / "run")[-1]
    assert isinstance(ended, Ended)
    assert (ended.outcome, ended.cause) == ("failed", cause)
    pids = [int(pid) for rank in "01" for pid in (tmp_path / rank).read_text().split()]
    assert [pid for pid in pids if alive(pid)] == []


@pytest.mark.slow
def test_a_command_prints_what_it_would_print_alone(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(
        "import sys\nprint('one')\nprint(sys.argv[1:])\nsys.stdout.write('no end')"
    )
    done = elastane(tmp_path, "job.py", "--steps", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "one\n['--steps', '3']\nno end\n"
