"""A job runs with what is active where it is submitted: tried as a user would, with a real service."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastane import Client
from elastane.engines.local.marked_processes import marked
from helpers.venvs import EVERYTHING, make_venv
from service.test_daemon import PATIENCE_S, System, until

SHOW = """
import os, sys
import helper_of_this_test
names = ("VIRTUAL_ENV", "MORE", "INNER", "RANK", "HF_TOKEN")
print(sys.executable, *(f"{name}={os.environ.get(name)}" for name in names), flush=True)
"""
MEETS = """
import sys
import torch.distributed as dist
dist.init_process_group("gloo")
print(sys.executable, "of", dist.get_world_size(), flush=True)
dist.destroy_process_group()
"""


class Shell:
    """Somebody with an activated environment, in a directory of their own."""

    def __init__(self, system: System, place: Path, venv: Path) -> None:
        self.system, self.place = system, place
        self.variables = {
            **os.environ,
            "ELASTANE_HOME": str(system.home),
            "PATH": f"{venv / 'bin'}:/usr/bin:/bin",
            "VIRTUAL_ENV": str(venv),
        }

    def submit(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "elastane", "submit", *words],
            env={**self.variables, **variables},
            cwd=self.place,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    def output(self, *words: str, **variables: str) -> tuple[str, str]:
        """(what the job printed, how it ended)."""
        done = self.submit(*words, **variables)
        assert done.returncode == 0, done.stderr
        client, id = self.system.client, done.stdout.split()[1]
        until(lambda: client.job(id).state in ("succeeded", "failed"))
        return _log(client, id), client.job(id).reason


def _log(client: Client, id: str) -> str:
    return "".join(client.follow_logs(id))


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[System]:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # no environment is active where the service is started
    system = System(tmp_path / "home")
    system.up()
    yield system
    system.run("down")
    assert list(marked(system.home)) == []


@pytest.mark.slow
def test_a_job_runs_with_what_is_active_where_it_is_submitted(system: System, tmp_path: Path) -> None:
    python = make_venv(tmp_path / "venv", *EVERYTHING)
    bare = make_venv(tmp_path / "bare")
    place = tmp_path / "place"
    place.mkdir()
    (place / "show.py").write_text(SHOW)
    (place / "meets.py").write_text(MEETS)
    (place / "uses.py").write_text("import elastane.train as et\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "helper_of_this_test.py").touch()
    shell = Shell(system, place, tmp_path / "venv")

    printed, _ = shell.output(
        *("--export", "MORE", "--", "env", "INNER=1", "python", "show.py"),
        PYTHONPATH="../more",
        MORE="yes",
        HF_TOKEN="hf_x",
    )
    active = f"VIRTUAL_ENV={tmp_path / 'venv'}"
    assert printed == f"{python} {active} MORE=yes INNER=1 RANK=None HF_TOKEN=None\n"

    printed, _ = shell.output("--", "python", "-m", "torch.distributed.run", "--nproc-per-node=2", "meets.py")
    assert printed == f"{python} of 2\n"

    told = shell.submit("--workers", "1:2", "--", bare, "uses.py")
    assert f"install it with: {bare} -m pip install 'elastane[torch]'" in told.stderr
    assert "1 to 2 workers are not possible, it keeps 1" in told.stderr
    _, reason = shell.output("--", bare, "uses.py")
    assert f"No module named 'elastane'; install it with: {bare} -m pip install 'elastane[torch]'" in reason

    refused = shell.submit("--export", "HF_TOKEN", "--", "python", "show.py", HF_TOKEN="hf_x")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert "looks like a secret" in refused.stderr
    assert not [file for file in system.home.glob("elastane.db*") if b"hf_x" in file.read_bytes()]


def test_without_these_fields_a_job_runs_with_the_services_own(system: System, tmp_path: Path) -> None:
    (tmp_path / "show.py").write_text("import sys; print(sys.executable)")
    job = system.client.submit({"command": "python show.py"}, directory=tmp_path)
    until(lambda: system.client.job(job.id).state == "succeeded")
    assert _log(system.client, job.id) == f"{sys.executable}\n"
