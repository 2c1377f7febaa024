"""Real jobs on real (virtual) nodes: what is asked for happens, whatever is killed on the way."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from elastane.cluster import Node
from elastane.engines.contract import Cause, Ending
from elastane.engines.local.engine import LocalEngine
from elastane.engines.local.json_files import read_json
from elastane.train.reports.events import Resized, Stepped, WorkerLost
from engines.local.house import SCRIPTS, House, house, live

PYTHON = sys.executable


def counting(out: Path, *options: str) -> tuple[str, ...]:
    return (PYTHON, str(SCRIPTS / "counting.py"), str(out), "--pause=0.01", *options)


def enough(living: House, job: str) -> None:
    """The script ends after this epoch."""
    (living.home / "jobs" / job / "run" / "enough").touch()


def counts(out: Path) -> set[str]:
    return set(out.read_text().split())


def test_a_gang_over_two_nodes_gets_what_torchrun_would_set_and_its_exit_code_is_told(tmp_path: Path) -> None:
    names = '("RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK")'
    words = (
        f"import os, time; v = [os.environ[k] for k in {names}]; print(*v, flush=True); open(v[0], 'w').close()\n"
        "while v[0] == '1' and not os.path.exists('0'): time.sleep(0.01)\n"  # a failed gang ends at once
        "raise SystemExit(3 * int(v[0]))"
    )

    async def story() -> None:
        async with house(tmp_path) as living:
            job = living.launch("j1", 1, PYTHON, "-c", words)
            living.want(job, {"n0": 1, "n1": 1})
            await living.until(lambda: living.over(job) is not None)
            over = living.over(job)
            assert over is not None
            assert (over.cause, over.code) == (Cause.FAILED, 3)
            logs = [(tmp_path / "jobs/j1/run/logs" / f"w{i}.log").read_text().strip() for i in (1, 2)]
            assert logs == ["0 2 0 0", "1 2 0 1"]

    live(story)


def test_workers_see_accelerators_of_their_own(tmp_path: Path) -> None:
    """On nodes that are said to have some."""
    words = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], flush=True)"

    async def story() -> None:
        async with house(tmp_path, devices={"n0": ("0", "1"), "n1": ("2", "3")}) as living:
            job = living.launch("j1", 1, PYTHON, "-c", words)
            living.want(job, {"n0": 2, "n1": 1})
            await living.until(lambda: living.over(job) is not None)
            logs = [(tmp_path / "jobs/j1/run/logs" / f"w{i}.log").read_text().strip() for i in (1, 2, 3)]
            assert logs[2] == "2"
            assert set(logs[:2]) <= {"0", "1"}

    live(story)


@pytest.mark.slow
def test_a_supervisor_that_is_killed_again_and_again_does_not_end_the_job(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            job = living.launch("j1", 1, *counting(tmp_path / "counts"))
            living.want(job, {"n0": 1})
            await living.until(lambda: bool(living.on(job)))
            monitor = living.engine._monitors[job.attempt]
            for _ in range(5):
                process = monitor._process
                assert process is not None
                process.kill()
                process.wait()
                await living.until(
                    lambda old=process: monitor._process not in (None, old) and monitor._lock.held
                )
            enough(living, "j1")
            await living.until(lambda: living.over(job) is not None)
            over = living.over(job)
            assert over is not None
            assert over.cause is Cause.FINISHED

    live(story)


@pytest.mark.slow
@pytest.mark.parametrize("delay_s", [0.1, 0.25, 0.4])
def test_a_supervisor_that_is_killed_while_the_job_ends_does_not_keep_it_from_ending(
    tmp_path: Path, delay_s: float
) -> None:
    """Before, while and after the worker says that it is done, depending on the machine's speed."""

    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            job = living.launch("j1", 1, *counting(tmp_path / "counts"))
            living.want(job, {"n0": 1})
            await living.until(lambda: bool(living.on(job)))
            enough(living, "j1")
            await asyncio.sleep(delay_s)
            process = living.engine._monitors[job.attempt]._process
            assert process is not None
            process.kill()
            await living.until(lambda: living.over(job) is not None)
            over = living.over(job)
            assert over is not None
            assert over.cause is Cause.FINISHED

    live(story)


def test_what_cannot_be_started_is_told_as_such(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            job = living.launch("j1", 1, "/no/such/program")
            living.want(job, {"n0": 1})
            await living.until(lambda: living.over(job) is not None)
            over = living.over(job)
            assert over is not None
            assert over.cause is Cause.UNSTARTABLE
            assert "/no/such/program" in over.detail

    live(story)


@pytest.mark.slow
def test_training_goes_on_through_a_lost_node_a_move_and_a_suspension_and_counts_every_sample_once(
    tmp_path: Path,
) -> None:
    out = tmp_path / "counts"

    async def story() -> None:
        async with house(tmp_path) as living:
            job = living.launch("j1", 1, *counting(out))
            living.want(job, {"n0": 1, "n1": 1})
            await living.until(lambda: living.on(job) == {"n0": 1, "n1": 1})
            agents = living.engine.facts()["agents"]
            os.kill(agents["n1"]["pid"], signal.SIGKILL)
            await living.until(lambda: bool(living.events(WorkerLost, "j1")))
            living.want(job, {"n0": 2})
            await living.until(lambda: living.on(job) == {"n0": 2})
            await living.until(lambda: "n1" in living.engine.nodes())
            living.want(job, {"n1": 2})
            await living.until(lambda: living.on(job) == {"n1": 2})
            living.end(job, Ending.SUSPEND)
            await living.until(lambda: living.over(job) is not None)
            over = living.over(job)
            assert over is not None
            assert over.cause is Cause.SUSPENDED
            living.engine.forget(job.attempt)
            again = living.launch("j1", 2, *counting(out))
            living.want(again, {"n0": 1})
            await living.until(lambda: living.on(again) == {"n0": 1})
            enough(living, "j1")
            await living.until(lambda: living.over(again) is not None)
            over = living.over(again)
            assert over is not None
            assert over.cause is Cause.FINISHED

    live(story)
    assert counts(out) == {"1"}


@pytest.mark.slow
def test_a_killed_supervisor_is_replaced_and_training_does_not_notice(tmp_path: Path) -> None:
    out = tmp_path / "counts"

    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            job = living.launch("j1", 1, *counting(out))
            living.want(job, {"n0": 2})
            await living.until(lambda: living.on(job) == {"n0": 2})
            before = {worker.pid for worker in living.engine.processes(job.attempt)}
            control = read_json(job.records / "control.json")
            assert control is not None
            os.kill(control["pid"], signal.SIGKILL)
            await living.until(
                lambda: (read_json(job.records / "control.json") or control)["pid"] != control["pid"]
            )
            seen = len(living.events(Stepped, "j1"))
            await living.until(lambda: len(living.events(Stepped, "j1")) > seen + 1)
            assert {worker.pid for worker in living.engine.processes(job.attempt)} == before
            assert not living.events(WorkerLost, "j1")
            enough(living, "j1")
            await living.until(lambda: living.over(job) is not None)
            assert [event.kind for event in living.events(Resized, "j1")] == ["start"]  # type: ignore[attr-defined]

    live(story)
    assert counts(out) == {"1"}


def test_another_engine_on_the_same_home_takes_over_what_runs(tmp_path: Path) -> None:
    out = tmp_path / "counts"

    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            job = living.launch("j1", 1, *counting(out))
            living.want(job, {"n0": 1})
            await living.until(lambda: living.on(job) == {"n0": 1})
            pids = {worker.pid for worker in living.engine.processes(job.attempt)}
            await living.engine.close(leave_running=True)
            living.engine = LocalEngine(tmp_path, {"n0": Node("n0", 2, "cpu")})
            await living.engine.open()
            living.want(job, {"n0": 1})
            await living.until(lambda: living.on(job) == {"n0": 1})
            assert {worker.pid for worker in living.engine.processes(job.attempt)} == pids
            enough(living, "j1")
            await living.until(lambda: living.over(job) is not None)

    live(story)
    assert counts(out) == {"1"}


@pytest.mark.slow
def test_a_script_that_hides_its_elasticity_is_found_out_when_it_calls(tmp_path: Path) -> None:
    (tmp_path / "hidden.py").write_text((SCRIPTS / "counting.py").read_text())
    script, out = tmp_path / "train.py", tmp_path / "counts"
    script.write_text("import hidden")

    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            command = (PYTHON, str(script), str(out), "--pause=0.01")
            job = replace(living.launch("j1", 1, *command, kind="command"), guessed=True)
            living.want(job, {"n0": 1})
            await living.until(lambda: any(told.kind == "adaptive" for told in living.running(job)))
            living.want(job, {"n0": 2})
            await living.until(lambda: living.on(job) == {"n0": 2})
            enough(living, "j1")
            await living.until(lambda: living.over(job) is not None)

    live(story)
    assert counts(out) == {"1"}


def test_a_cancelled_job_leaves_nothing_running_not_even_what_its_workers_started(tmp_path: Path) -> None:
    words = "import subprocess, sys; print('here', flush=True); subprocess.run(['sleep', '1000'])"

    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            job = living.launch("j1", 1, PYTHON, "-c", words)
            living.want(job, {"n0": 1})
            await living.until(lambda: bool(living.running(job)))
            living.end(job, Ending.CANCEL)
            await living.until(lambda: living.over(job) is not None)
            over = living.over(job)
            assert over is not None
            assert over.cause is Cause.CANCELLED
            living.engine.forget(job.attempt)
            await living.until(lambda: "1000" not in commands())

    live(story)


def commands() -> set[str]:
    """Every word of every command line on this machine."""
    found: set[str] = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found |= set(path.read_bytes().decode(errors="replace").split("\0"))
        except OSError:
            continue
    return found
