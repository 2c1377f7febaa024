"""The whole live system as a user meets it: one command starts it, kill -9 does not hurt it, one command ends it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from elastane import Client
from elastane.client.send_directory import send_directory
from elastane.engines.local.marked_processes import marked

PATIENCE_S = 120.0
COUNTING = Path(__file__).parents[1] / "train" / "scripts" / "counting.py"


class System:
    """One home, and the command line on it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._environment = {**os.environ, "ELASTANE_HOME": str(home)}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "elastane", *words]
        environment = self._environment
        return subprocess.run(
            command, env=environment, cwd=self.home.parent, capture_output=True, text=True, timeout=PATIENCE_S
        )

    def up(self, *more: str) -> None:
        done = self.run("up", "--detach", "--slots=2", "--interval=1", *more)
        assert done.returncode == 0, done.stderr

    @property
    def client(self) -> Client:
        return Client((self.home / "url").read_text().strip(), (self.home / "token").read_text().strip())

    def kill(self) -> None:
        pid = int((self.home / "elastane.pid").read_text())
        os.kill(pid, signal.SIGKILL)
        until(lambda: not alive(pid))


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    system = System(tmp_path / "home")
    system.up()
    yield system
    system.run("down")
    assert list(marked(system.home)) == []
    assert not (system.home / "elastane.pid").exists()


def test_jobs_run_and_mistakes_are_told_in_one_line(system: System) -> None:
    again = system.run("up", "--detach")
    assert again.returncode == 2
    assert "already" in again.stderr
    wrong = system.run("submit", "--kind", "rigidd", "--", "true")
    assert wrong.returncode == 2
    assert "rigid" in wrong.stderr
    missing = system.run("submit", "--", "python", "nowhere.py")
    assert missing.returncode == 2
    assert "nowhere.py" in missing.stderr
    greedy = system.run("submit", "--workers", "9", "--", "true")
    assert greedy.returncode == 2
    assert "2 slots" in greedy.stderr
    submitted = json.loads(system.run("submit", "--json", "--", "echo", "hello").stdout)
    waited = system.run("status", "--wait", submitted["id"], "--json")
    assert waited.returncode == 0, waited.stderr
    assert json.loads(waited.stdout)["state"] == "succeeded"
    assert system.run("logs", submitted["id"]).stdout == "hello\n"
    failed = json.loads(system.run("submit", "--json", "--", "false").stdout)
    assert system.run("status", "--wait", failed["id"]).returncode == 10
    assert len(system.client.jobs("ended")) == 2
    replayed = system.run("replay", "--all", "--json")
    assert replayed.returncode == 0, replayed.stderr
    assert [decision["same"] for decision in json.loads(replayed.stdout)] == [True, True]


@pytest.mark.slow
def test_kill_9_of_the_control_plane_touches_no_training_and_loses_no_job(
    system: System, tmp_path: Path
) -> None:
    out = tmp_path / "counts"
    command = [sys.executable, str(COUNTING), str(out), "--pause=0.01"]
    training = system.client.submit({"command": command}, directory=str(tmp_path)).id
    until(lambda: (system.client.job(training).training or None) is not None)
    step = system.client.job(training).training.step  # type: ignore[union-attr]
    pids = {worker.pid for worker in system.client.job(training).processes}
    other = system.client.submit({"command": ["sleep", "2"]}, directory=str(tmp_path)).id
    system.kill()
    assert all(alive(pid) for pid in pids if pid)
    system.up()
    until(lambda: system.client.job(other).state == "succeeded")
    job = system.client.job(training)
    assert job.state in ("running", "resizing")
    assert pids & {worker.pid for worker in job.processes}
    assert job.training is not None
    assert job.training.step >= step
    (system.home / "jobs" / training / "run" / "enough").touch()
    until(lambda: system.client.job(training).state == "succeeded")
    assert set(out.read_text().split()) == {"1"}
    assert system.client.job(training).attempt == 1


@pytest.mark.slow
def test_a_job_that_was_sent_along_runs_though_its_directory_is_gone(system: System, tmp_path: Path) -> None:
    top = tmp_path / "project"
    (top / "inner").mkdir(parents=True)
    (top / "inner" / "go.py").write_text("import sys; sys.path.append('..'); import beside; print(beside.WORD)")
    (top / "beside.py").write_text("WORD = 'packed'")
    sent = send_directory(system.client, top, "inner")
    shutil.rmtree(top)
    job = system.client.submit({"command": "python go.py"}, directory=top / "inner", code=sent.code).id
    until(lambda: system.client.job(job).ended_s is not None)
    assert system.client.job(job).state == "succeeded", system.run("logs", job).stdout
    assert system.run("logs", job).stdout == "packed\n"
    assert f"package {sent.code.digest[:12]}, in inner" in system.run("status", job).stdout


@pytest.mark.slow
def test_jobs_are_saved_by_down_and_go_on_at_the_next_up(system: System, tmp_path: Path) -> None:
    out = tmp_path / "counts"
    command = [sys.executable, str(COUNTING), str(out), "--pause=0.01"]
    training = system.client.submit({"command": command}, directory=str(tmp_path)).id
    until(lambda: (system.client.job(training).training or None) is not None)
    assert system.run("down").returncode == 0
    assert list(marked(system.home)) == []
    assert system.run("queue").returncode == 1
    system.up()
    until(lambda: system.client.job(training).state in ("running", "resizing"))
    assert system.client.job(training).attempt == 2
    (system.home / "jobs" / training / "run" / "enough").touch()
    until(lambda: system.client.job(training).state == "succeeded")
    assert set(out.read_text().split()) == {"1"}


@pytest.mark.slow
def test_a_job_keeps_the_place_beneath_the_systems_that_it_was_submitted_with(
    system: System, tmp_path: Path
) -> None:
    system.run("down")
    system.up(f"--checkpoints=file://{tmp_path}/elsewhere")
    out = tmp_path / "counts"
    command = [sys.executable, str(COUNTING), str(out), "--pause=0.01"]
    training = system.client.submit({"command": command}, directory=str(tmp_path)).id
    until(lambda: (system.client.job(training).training or None) is not None)
    assert system.run("down").returncode == 0
    (place,) = (tmp_path / "elsewhere").iterdir()
    assert place.name.startswith(f"{training}-")
    assert list(place.glob("*.manifest"))
    system.up()  # without a word about checkpoints
    until(lambda: system.client.job(training).attempt == 2)
    run = system.home / "jobs" / training / "run"
    (run / "enough").touch()
    until(lambda: system.client.job(training).state == "succeeded")
    assert set(out.read_text().split()) == {"1"}
    assert not (run / "checkpoints").exists()
    assert len([path for path in place.iterdir() if path.name.startswith("claim-")]) == 1
    refused = system.run("up", "--detach", "--checkpoints=relative")
    assert refused.returncode == 2
    assert "--checkpoints: got 'relative'; expected a URL" in " ".join(refused.stderr.split())


LEASHED = """
import sys, time
from pathlib import Path
from elastane.service.home import start_detached
there = start_detached(Path(sys.argv[1]), ["--slots=1"], leashed=True)
print(there.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_a_system_on_a_leash_ends_with_whoever_started_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    holder = subprocess.Popen([sys.executable, "-c", LEASHED, str(home)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    pid = int(holder.stdout.readline())
    assert alive(pid)
    holder.kill()
    holder.wait()
    until(lambda: not alive(pid))
    assert list(marked(home)) == []


def test_a_taken_port_is_one_line_and_leaves_nothing_behind(tmp_path: Path) -> None:
    system = System(tmp_path / "home")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        failed = system.run("up", "--slots=1", f"--port={taken.getsockname()[1]}")
    assert failed.returncode == 2
    assert "is taken" in failed.stderr
    assert list(marked(system.home)) == []
    assert not list(system.home.glob("nodes/*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_is_asked_as_whom_jobs_run_and_told_what_me_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ELASTANE_JOBS_AS")
    system = System(tmp_path / "home")
    refused = system.run("up", "--detach")
    assert refused.returncode == 2
    assert len(refused.stderr.strip().splitlines()) == 1
    assert all(word in refused.stderr for word in ("--jobs-as", "tenant", "USER", "me"))
    assert not (tmp_path / "home").exists()
    done = system.run("up", "--detach", "--jobs-as=me")
    try:
        assert "note: jobs run as root, like Elastane itself" in done.stdout
        assert "jobs run as root" in " ".join(system.client.info().warnings)
    finally:
        system.run("down")


ROUNDS_FAIL = """
import sys
from elastane.cli.main import main
from elastane.service.control.plane import ControlPlane
from elastane.service.store import StoreError
made, fails = ControlPlane.round, int(sys.argv.pop(1))
async def refused(plane):
    global fails
    fails -= 1
    if fails >= 0:
        raise StoreError("no space left on the disk")
    await made(plane)
ControlPlane.round = refused
sys.exit(main())
"""


@pytest.mark.parametrize("fails", [1, 1000])
def test_up_succeeds_only_if_a_first_round_can_be_made_and_a_later_one_counts(
    tmp_path: Path, fails: int
) -> None:
    home, log = tmp_path / "home", tmp_path / "log"
    command = [sys.executable, "-c", ROUNDS_FAIL, str(fails), "up", "--slots=1"]
    with log.open("w") as output:
        started = subprocess.Popen(
            command, env={**os.environ, "ELASTANE_HOME": str(home)}, stdout=output, stderr=output, cwd=tmp_path
        )
    try:
        if fails == 1:
            until(lambda: "Elastane is up" in log.read_text())
            assert "no space left" in log.read_text().partition("Elastane is up")[0]
            started.send_signal(signal.SIGTERM)
            assert started.wait(PATIENCE_S) == 0
        else:
            assert started.wait(PATIENCE_S) == 2
            assert log.read_text().splitlines()[-1].endswith("did not start: no space left on the disk")
            assert "Traceback" not in log.read_text()
            assert "Elastane is up" not in log.read_text()
    finally:
        started.kill()
    assert list(marked(home)) == []
    assert not (home / "elastane.pid").exists()
