"""Scripts of any interpreter: adaptive where it can import us, else they fail at once with the line that mends it."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from elastane.engines.contract import Cause, Launch, Over
from engines.local.house import SCRIPTS, House, house, live
from helpers.venvs import EVERYTHING, OURS, make_venv


def foreign(
    living: House, python: str, *command: str, kind: str, environment: Mapping[str, str] | None = None
) -> Launch:
    job = living.launch("j1", 1, "python", *command, kind=kind)
    return replace(job, python=python, environment=environment or {})


async def end_of(living: House, job: Launch) -> Over:
    await living.until(lambda: living.over(job) is not None)
    over = living.over(job)
    assert over is not None
    return over


def pids(living: House, job: Launch) -> list[int]:
    return [worker.pid for worker in living.engine.processes(job.attempt) if worker.pid is not None]


@pytest.mark.slow
def test_an_adaptive_script_grows_and_survives_a_kill_in_the_interpreter_it_was_submitted_with(
    tmp_path: Path,
) -> None:
    python = make_venv(tmp_path / "other", *EVERYTHING)
    out = tmp_path / "counts.txt"

    async def story() -> None:
        async with house(tmp_path / "home", nodes=1) as living:
            words = (str(SCRIPTS / "counting.py"), str(out), "--pause", "0.01")
            job = foreign(living, python, *words, kind="adaptive")
            living.want(job, {"n0": 1})
            await living.until(lambda: living.on(job) == {"n0": 1})
            living.want(job, {"n0": 2})
            await living.until(lambda: living.on(job) == {"n0": 2})
            killed, _ = pids(living, job)
            os.kill(killed, signal.SIGKILL)
            await living.until(lambda: killed not in pids(living, job) and living.on(job) == {"n0": 2})
            for pid in pids(living, job):
                assert Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] == os.fsencode(python)
            (job.run / "enough").touch()
            assert (await end_of(living, job)).cause is Cause.FINISHED

    live(story)
    assert set(out.read_text().split()) == {"1"}


MEETS = """
import os, sys, time
from pathlib import Path
import torch.distributed as dist
dist.init_process_group("gloo")
print(sys.executable, dist.get_world_size(), flush=True)
Path(f"met-{dist.get_world_size()}").touch()
while not Path("enough").exists():
    time.sleep(0.05)
"""


@pytest.mark.slow
def test_a_torchrun_script_is_resized_in_the_interpreter_it_was_submitted_with(tmp_path: Path) -> None:
    python = make_venv(tmp_path / "other", *EVERYTHING)
    (tmp_path / "meets.py").write_text(MEETS)

    async def story() -> None:
        async with house(tmp_path / "home", nodes=1) as living:
            job = foreign(living, python, "meets.py", kind="resizable")
            job = replace(job, directory=str(tmp_path))
            living.want(job, {"n0": 1})
            await living.until((tmp_path / "met-1").exists)
            living.want(job, {"n0": 2})
            await living.until((tmp_path / "met-2").exists)
            (tmp_path / "enough").touch()
            assert (await end_of(living, job)).cause is Cause.FINISHED
            logs = [log.read_text() for log in (job.run / "logs").glob("w*.log")]
            assert f"{python} 2\n" in logs

    live(story)


@pytest.mark.parametrize(
    ("places", "lacking"),
    [
        ((), "cannot import elastane.train"),
        ((OURS,), "cannot import elastane.train (ModuleNotFoundError: No module named 'msgspec')"),
        ((OURS, "msgspec"), "has no PyTorch"),
    ],
    ids=["us", "what-we-need", "torch"],
)
def test_what_an_interpreter_lacks_is_said_at_once_with_the_line_that_mends_it(
    tmp_path: Path, places: tuple[str, ...], lacking: str
) -> None:
    (tmp_path / "msgspec").mkdir()  # installed with us, and nothing else that is
    (tmp_path / "msgspec" / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    python = make_venv(tmp_path / "bare", *(str(tmp_path / place) for place in places))

    async def story() -> None:
        async with house(tmp_path / "home", nodes=1) as living:
            job = foreign(living, python, str(SCRIPTS / "counting.py"), "out", kind="adaptive")
            living.want(job, {"n0": 1})
            over = await end_of(living, job)
            assert over.cause is Cause.FAILED
            assert f"{python} {lacking}" in over.detail
            assert f"install it with: {python} -m pip install 'elastane[torch]'" in over.detail

    live(story)  # and the house asserts that no process is left


def test_a_rigid_script_that_lacks_torch_is_told_where_to_install_it(tmp_path: Path) -> None:
    python = make_venv(tmp_path / "bare")
    (tmp_path / "train.py").write_text("import torch\n")

    async def story() -> None:
        async with house(tmp_path / "home", nodes=1) as living:
            job = foreign(living, python, str(tmp_path / "train.py"), kind="rigid")
            living.want(job, {"n0": 1})
            over = await end_of(living, job)
            assert over.detail.endswith(f"install it with: {python} -m pip install torch")

    live(story)


def test_an_interpreter_that_is_gone_ends_the_job(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path / "home", nodes=1) as living:
            job = foreign(living, str(tmp_path / "gone"), str(SCRIPTS / "counting.py"), "out", kind="adaptive")
            living.want(job, {"n0": 1})
            over = await end_of(living, job)
            assert over.cause is Cause.FAILED
            assert f"{tmp_path / 'gone'}: No such file or directory" in over.detail

    live(story)


@pytest.mark.parametrize("kind", ["adaptive", "rigid"])
def test_a_relative_pythonpath_is_seen_by_scripts_that_run_inside_a_process_of_ours(
    tmp_path: Path, kind: str
) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "helper_of_this_test.py").write_text("WORD = 'found'\n")
    lines = ["import helper_of_this_test as h", "import elastane.train as et", "print(h.WORD, flush=True)"]
    (tmp_path / "train.py").write_text("\n".join(lines))

    async def story() -> None:
        async with house(tmp_path / "home", nodes=1) as living:
            job = foreign(living, "", "train.py", kind=kind, environment={"PYTHONPATH": "more"})
            job = replace(job, directory=str(tmp_path))
            living.want(job, {"n0": 1})
            log = job.run / "logs" / "w1.log"
            await living.until(lambda: log.exists() and "\n" in log.read_text())
            assert log.read_text().splitlines()[0] == "found"

    live(story)
