"""A home of the version before: its files are found where they belong now, and nothing of it is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from elastane.engines.contract import Attempt
from elastane.engines.local.json_files import Lock, write_json
from elastane.engines.local.paths import Layout
from elastane.engines.local.upgrade_home import take_up

HOLD = """
import sys, time
from pathlib import Path
from elastane.engines.local.json_files import Lock
assert Lock(Path(sys.argv[1])).take()
print("held", flush=True)
time.sleep(600)
"""


def old_home(home: Path) -> Path:
    folder = home / "jobs" / "j7"
    for number in (1, 2):
        (folder / f"attempt-{number}").mkdir(parents=True)
        write_json(folder / f"attempt-{number}" / "launch.json", {"number": number})
    (folder / "run" / "logs").mkdir(parents=True)
    (folder / "run" / "logs" / "w1.log").write_text("words")
    (folder / "run" / "events.jsonl").write_text("events\n")
    (folder / "run" / "plans.jsonl").write_text("plans\n")
    return folder


def test_what_the_service_decides_by_leaves_the_jobs_folder(tmp_path: Path) -> None:
    folder, layout = old_home(tmp_path), Layout(tmp_path)
    assert take_up(layout) == 1
    for number in (1, 2):
        assert (layout.attempt(Attempt("j7", number)) / "launch.json").exists()
    assert (layout.records("j7") / "events.jsonl").read_text() == "events\n"
    assert (layout.records("j7") / "plans.jsonl").read_text() == "plans\n"
    assert (layout.run("j7") / "logs" / "w1.log").read_text() == "words"
    assert not list(folder.glob("attempt-*"))
    assert take_up(layout) == 0


def test_a_move_that_was_cut_short_is_finished(tmp_path: Path) -> None:
    folder, layout = old_home(tmp_path), Layout(tmp_path)
    layout.records("j7").mkdir(parents=True)
    (folder / "run" / "plans.jsonl").rename(layout.records("j7") / "plans.jsonl")
    assert take_up(layout) == 1
    assert {path.name for path in layout.records("j7").iterdir()} == {
        "plans.jsonl",
        "events.jsonl",
        "attempt-1",
        "attempt-2",
    }


def test_a_supervisor_of_the_version_before_is_ended(tmp_path: Path) -> None:
    """It would write to where nobody reads any more."""
    folder = old_home(tmp_path)
    lock = folder / "attempt-2" / "lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(lock)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert Lock(lock).holder() == holder.pid
        assert take_up(Layout(tmp_path)) == 1
        assert holder.wait(30) == -9
    finally:
        holder.kill()


def test_agents_and_supervisors_that_log_in_otherwise_are_ended_once(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.node("n0").mkdir(parents=True)
    layout.attempt(Attempt("j7", 1)).mkdir(parents=True)
    (layout.control / "taken-up").touch()
    locks = [layout.agent_lock("n0"), layout.attempt(Attempt("j7", 1)) / "lock"]
    holders = [subprocess.Popen([sys.executable, "-c", HOLD, str(p)], stdout=subprocess.PIPE) for p in locks]
    try:
        for holder in holders:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
        assert take_up(layout) == 0
        assert [holder.wait(60) for holder in holders] == [-9, -9]
        ours = Lock(locks[0])
        assert ours.take()
        assert take_up(layout) == 0
        assert Lock(locks[0]).held
    finally:
        for holder in holders:
            holder.kill()


def test_what_a_job_puts_into_its_folder_later_is_not_taken_for_ours(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert take_up(layout) == 0  # as every start does
    folder = old_home(tmp_path)
    assert take_up(layout) == 0
    assert (folder / "attempt-1").is_dir()
    assert not layout.records("j7").exists()


@pytest.mark.parametrize("stand_in", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to(path)])
@pytest.mark.parametrize("place", ["jobs/j7/attempt-1", "control/j7/attempt-1"])
def test_what_is_no_file_was_never_a_lock(
    tmp_path: Path, place: str, stand_in: Callable[[Path], object]
) -> None:
    """Before and after files have moved: neither opened, nor waited for, nor in the way of a start."""
    (tmp_path / place).mkdir(parents=True)
    stand_in(tmp_path / place / "lock")
    assert take_up(Layout(tmp_path)) == (1 if place.startswith("jobs") else 0)
