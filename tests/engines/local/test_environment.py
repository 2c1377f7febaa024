"""What a job sees of the service that runs it: nothing that would lead to its home, its tokens or its secrets."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from elastane.engines.local.agent import JOBS_YIELD
from elastane.engines.local.environment import for_jobs
from elastane.engines.local.marked_processes import MARK
from elastane.jobs.declared import VARIABLE, Declared
from engines.local.house import house, live


def test_only_named_variables_are_handed_on() -> None:
    given = {"PATH": "/bin", "LC_ALL": "C", "NCCL_DEBUG": "INFO", "AWS_SECRET_ACCESS_KEY": "x", "FOO": "y"}
    ours = {"ELASTANE_HOME": "/h", "ELASTANE_TOKEN": "t", "ELASTANE_URL": "u", "CUDA_API_KEY": "k"}
    assert for_jobs({**given, **ours}) == {"PATH": "/bin", "LC_ALL": "C", "NCCL_DEBUG": "INFO"}


SHOW = "import json, os; print(json.dumps(dict(os.environ)), flush=True)"
WARM = f"import elastane.train\n{SHOW}\n"


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_job_is_told_neither_the_home_nor_a_token_nor_what_up_was_started_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adaptive: bool
) -> None:
    monkeypatch.setenv("ELASTANE_HOME", str(tmp_path))
    monkeypatch.setenv("ELASTANE_TOKEN", "token-of-the-admin")
    monkeypatch.setenv("DEPLOY_KEY", "secret-of-the-admin")
    script = tmp_path / "show.py"
    script.write_text(WARM)
    command = (str(script),) if adaptive else ("-c", SHOW)

    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            job = living.launch("j1", 1, sys.executable, *command)
            living.want(job, {"n0": 1})
            log = job.run / "logs" / "w1.log"
            await living.until(lambda: log.exists() and "}\n" in log.read_text())
            seen = json.loads(next(line for line in log.read_text().splitlines() if line.startswith("{")))
            assert not {"ELASTANE_HOME", "ELASTANE_TOKEN", "DEPLOY_KEY"} & seen.keys()
            assert not [value for value in seen.values() if "of-the-admin" in value]
            assert str(tmp_path) not in seen[MARK]

    live(story)


ASK = """
from elastane.client import Client, ClientError
try:
    print("seen", Client()._wire.address.token, flush=True)
except ClientError as refused:
    print("seen", refused, flush=True)
"""


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_client_in_a_job_is_not_the_admin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adaptive: bool
) -> None:
    """Without root a job has the admin's ``HOME``, in which the service keeps its own unless told otherwise."""
    home = tmp_path / ".elastane"
    home.mkdir()
    (home / "url").write_text("http://127.0.0.1:1")
    (home / "token").write_text("token-of-the-admin")
    monkeypatch.setenv("HOME", str(tmp_path))
    script = tmp_path / "ask.py"
    script.write_text(f"import elastane.train\n{ASK}\n")
    command = (str(script),) if adaptive else ("-c", ASK)

    async def story() -> None:
        async with house(home, nodes=1) as living:
            job = living.launch("j1", 1, sys.executable, *command)
            living.want(job, {"n0": 1})
            log = job.run / "logs" / "w1.log"
            await living.until(lambda: any(line.startswith("seen") for line in _lines(log)))
            (seen,) = (line for line in _lines(log) if line.startswith("seen"))
            assert f"this is a job, which is not given the admin's token of {home}" in seen
            assert "token-of-the-admin" not in seen

    live(story)


def _lines(log: Path) -> list[str]:
    """Whole lines."""
    return log.read_text().rpartition("\n")[0].splitlines() if log.exists() else []


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_job_leaves_the_cores_to_the_service_when_both_want_them(tmp_path: Path, adaptive: bool) -> None:
    script = tmp_path / "show.py"
    show = "import os; print('nice', os.nice(0), flush=True)"
    script.write_text(f"import elastane.train\n{show}\n")
    command = (str(script),) if adaptive else ("-c", show)

    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            job = living.launch("j1", 1, sys.executable, *command)
            living.want(job, {"n0": 1})
            log = job.run / "logs" / "w1.log"
            await living.until(lambda: log.exists() and "nice" in log.read_text())
            said = next(line for line in log.read_text().splitlines() if line.startswith("nice"))
            assert int(said.split()[1]) == min(os.nice(0) + JOBS_YIELD, 19)

    live(story)


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_job_finds_what_its_owner_declared_and_not_what_else_is_set(tmp_path: Path, adaptive: bool) -> None:
    script = tmp_path / "show.py"
    script.write_text(WARM)
    command = (str(script),) if adaptive else ("-c", SHOW)

    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            plain = living.launch("j1", 1, sys.executable, *command)
            job = replace(plain, environment={VARIABLE: '{"epochs": 99}'}, declared=Declared(epochs=3))
            living.want(job, {"n0": 1})
            log = job.run / "logs" / "w1.log"
            await living.until(lambda: log.exists() and "}\n" in log.read_text())
            seen = json.loads(next(line for line in log.read_text().splitlines() if line.startswith("{")))
            assert json.loads(seen[VARIABLE]) == {"epochs": 3}

    live(story)


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("place", ["", "file:///mnt/x"])
def test_a_job_finds_where_its_checkpoints_shall_lie(tmp_path: Path, adaptive: bool, place: str) -> None:
    script = tmp_path / "show.py"
    script.write_text(WARM)
    command = (str(script),) if adaptive else ("-c", SHOW)

    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            job = replace(living.launch("j1", 1, sys.executable, *command), checkpoints=place)
            living.want(job, {"n0": 1})
            log = job.run / "logs" / "w1.log"
            await living.until(lambda: log.exists() and "}\n" in log.read_text())
            seen = json.loads(next(line for line in log.read_text().splitlines() if line.startswith("{")))
            assert seen.get("ELASTANE_CHECKPOINTS", "") == place

    live(story)
