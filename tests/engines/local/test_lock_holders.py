"""An attempt that is to end does end, whatever was done to the process that runs it; and nobody else is hit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from elastane.engines.contract import Cause, Ending
from elastane.engines.local.json_files import Lock
from elastane.engines.local.lock_holders import holders, kill_holders
from engines.local.house import house, live

HOLD = """
import fcntl, os, sys, time
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(file, fcntl.LOCK_EX)
if "--leave" in sys.argv and os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
time.sleep(600)
"""


def hold(lock: Path, *more: str) -> tuple[subprocess.Popen[bytes], int]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(lock), *more], stdout=subprocess.PIPE)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


@pytest.mark.parametrize("more", [(), ("--leave",)])
def test_whoever_holds_a_lock_is_killed_also_if_it_only_inherited_it(tmp_path: Path, more: tuple[str]) -> None:
    process, pid = hold(tmp_path / "lock", *more)
    try:
        assert kill_holders(tmp_path / "lock") == [pid]
        process.wait(30)
    finally:
        process.kill()


def test_a_second_name_or_a_link_leads_to_nobody(tmp_path: Path) -> None:
    process, pid = hold(tmp_path / "another")
    try:
        (tmp_path / "link").symlink_to("another")
        assert holders(tmp_path / "link") == []
        assert holders(tmp_path / "another") == [pid]
        os.link(tmp_path / "another", tmp_path / "lock")
        assert holders(tmp_path / "lock") == []
    finally:
        process.kill()
        process.wait()


def test_we_ourselves_are_spared(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "lock")
    assert lock.take()
    assert holders(tmp_path / "lock") == []
    lock.release()


def test_an_attempt_whose_supervisor_was_stopped_can_be_cancelled(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            job = living.launch("j1", 1, sys.executable, "-c", "import time; time.sleep(600)", kind="command")
            living.want(job, {"n0": 1})
            await living.until(lambda: bool(living.running(job)))
            process = living.engine._monitors[job.attempt]._process
            assert process is not None
            process.send_signal(signal.SIGSTOP)
            living.end(job, Ending.CANCEL)
            await living.until(lambda: living.over(job) is not None)
            over = living.over(job)
            assert over is not None
            assert over.cause is Cause.CANCELLED

    live(story)


@pytest.mark.parametrize("what", ["run", "logs"])
def test_a_job_whose_folder_is_a_link_does_not_start(tmp_path: Path, what: str) -> None:
    """Its logs would be written, and folders made, wherever the link leads."""

    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            job = living.launch("j1", 1, sys.executable, "-c", "pass", kind="command")
            elsewhere = tmp_path / "elsewhere"
            elsewhere.mkdir()
            place = job.run if what == "run" else job.run / "logs"
            place.parent.mkdir(parents=True)
            place.symlink_to(elsewhere)
            living.want(job, {"n0": 1})
            await living.until(lambda: living.over(job) is not None)
            over = living.over(job)
            assert over is not None
            assert (over.cause, "is a link" in over.detail) == (Cause.FAILED, True)
            assert list(elsewhere.iterdir()) == []

    live(story)


@pytest.mark.parametrize("poison", ["lock_that_is_a_pipe", "records_that_are_a_file"])
def test_an_attempt_whose_records_were_replaced_can_be_cancelled(tmp_path: Path, poison: str) -> None:
    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            job = living.launch("j1", 1, sys.executable, "-c", "import time; time.sleep(600)", kind="command")
            living.want(job, {"n0": 1})
            await living.until(lambda: bool(living.running(job)))
            if poison == "lock_that_is_a_pipe":
                os.mkfifo(job.folder / "pipe")
                (job.folder / "pipe").replace(job.folder / "lock")
            else:
                job.records.rename(tmp_path / "elsewhere")
                job.records.write_text("no folder")
            living.end(job, Ending.CANCEL)
            await living.until(lambda: living.over(job) is not None)

    live(story)


def test_who_runs_an_attempt_that_cannot_be_looked_after_is_gone_when_its_end_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            job = living.launch("j1", 1, sys.executable, "-c", "import time; time.sleep(600)", kind="command")
            living.want(job, {"n0": 1})
            await living.until(lambda: bool(living.running(job)))
            looker = living.engine._monitors[job.attempt]
            process = looker._process
            assert process is not None
            assert process.poll() is None

            async def broken() -> None:
                raise RuntimeError("never thought of")

            looker._look = broken  # type: ignore[method-assign]
            await living.until(lambda: living.over(job) is not None)
            over = living.over(job)
            assert over is not None
            assert over.cause is Cause.LOST
            assert process.poll() is not None, "it could begin processes beside those of the next attempt"
            assert holders(job.folder / "lock") == []

    live(story)
