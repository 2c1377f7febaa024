"""Who is ended by ``elastane down``: the process that holds the lock of the home, whatever a file says."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from elastane.cli.main import app
from elastane.engines.local.job_users import JobsAs
from elastane.engines.local.json_files import Lock, started
from elastane.errors import ElastaneError
from elastane.service.daemon import run
from elastane.service.home import (
    LOCK,
    PID,
    URL,
    UpOptions,
    close_home,
    make_home,
    running,
    start_detached,
    stop,
    write_text,
)

SERVICE = """
import signal, sys, time
from pathlib import Path
from elastane.engines.local.json_files import Lock
assert Lock(Path(sys.argv[1])).take()
print("held", flush=True)
signal.sigwait([signal.SIGTERM])
"""


def test_a_process_number_written_by_somebody_else_is_not_signalled(tmp_path: Path) -> None:
    service = subprocess.Popen([sys.executable, "-c", SERVICE, str(tmp_path / LOCK)], stdout=subprocess.PIPE)
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        assert service.stdout is not None
        service.stdout.readline()
        write_text(tmp_path / URL, "http://127.0.0.1:1")
        write_text(tmp_path / PID, str(stranger.pid))
        (tmp_path / LOCK).write_text(f"{stranger.pid} {started(stranger.pid)}\n")  # a job may write there, too
        there = running(tmp_path)
        assert there is not None
        assert there.pid == service.pid
        ended = stop(tmp_path, leave_running=False)
        assert ended is not None
        assert ended.pid == service.pid
        assert service.wait(30) == -15
        assert stranger.poll() is None
    finally:
        for process in (service, stranger):
            process.kill()
            process.wait()


def test_to_end_what_does_not_run_is_no_mistake(tmp_path: Path) -> None:
    assert stop(tmp_path, leave_running=False) is None
    ended = CliRunner().invoke(app, ["down", "--home", str(tmp_path)])
    assert ended.exit_code == 0
    assert ended.stdout == f"Elastane does not run on {tmp_path}; there is nothing to end\n"
    as_json = CliRunner().invoke(app, ["down", "--home", str(tmp_path), "--json"])
    assert json.loads(as_json.stdout) == {"pid": None, "home": str(tmp_path), "jobs": ""}


def test_nobody_holds_a_lock_that_was_let_go(tmp_path: Path) -> None:
    lock = Lock(tmp_path / LOCK)
    assert lock.take()
    assert lock.holder() is not None
    lock.release()
    assert Lock(tmp_path / LOCK).holder() is None


def test_a_home_that_others_pass_through_shows_nothing_of_earlier_jobs(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "jobs" / "j1" / "run").mkdir(parents=True)
    (home / "nodes").mkdir()
    (home / "elastane.log").write_text("")
    for path in (home, *home.rglob("*")):
        path.chmod(0o755)
    close_home(home, entered=True)
    modes = {str(path.relative_to(home)): path.stat().st_mode & 0o777 for path in (home, *home.rglob("*"))}
    assert modes == {
        ".": 0o711,
        "jobs": 0o711,
        "jobs/j1": 0o700,
        "jobs/j1/run": 0o755,
        "nodes": 0o700,
        "elastane.log": 0o700,
    }
    make_home(home)
    assert home.stat().st_mode & 0o777 == 0o711
    close_home(home)
    assert home.stat().st_mode & 0o777 == 0o700


def test_a_start_that_is_refused_leaves_the_home_of_the_running_system_as_it_is(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make_home(home)
    assert home.stat().st_mode & 0o777 == 0o700
    close_home(home, entered=True)
    lock = Lock(home / LOCK)
    assert lock.take()
    try:
        with pytest.raises(ElastaneError, match="already"):
            asyncio.run(run(UpOptions(home, jobs_as=JobsAs("me")), lambda *_: None))
        with pytest.raises(ElastaneError, match="already"):
            start_detached(home, ["--jobs-as", "me", "--home", str(home)])
        assert home.stat().st_mode & 0o777 == 0o711
    finally:
        lock.release()


def test_nothing_that_lies_in_the_current_directory_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, home = tmp_path / "here", tmp_path / "home"
    here.mkdir()
    planted = f"open({str(tmp_path / 'imported')!r}, 'w').close()\n"
    for name in ("elastane", "numpy", "uvicorn", "sqlalchemy", "typer", "json"):
        (here / f"{name}.py").write_text(planted)
    home.mkdir()
    lock = Lock(home / LOCK)
    assert lock.take()  # so that it ends as soon as it has imported everything
    monkeypatch.chdir(here)
    try:
        with pytest.raises(ElastaneError, match="already"):
            start_detached(home, ["--home", str(home)])
    finally:
        lock.release()
    assert not (tmp_path / "imported").exists()
