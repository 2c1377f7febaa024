"""``elastane demo`` as people and scripts use it: real processes, and nothing left of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from elastane.cli import demo_show
from elastane.demo.narrator import Line
from elastane.demo.play import Play, Scene
from elastane.service.messages import JobSummary


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "elastane", "demo", *arguments]


def environment(folder: Path) -> dict[str, str]:
    (folder / "tmp").mkdir(exist_ok=True)
    own = {"TMPDIR": str(folder / "tmp"), "XDG_CACHE_HOME": str(folder / "cache"), "COLUMNS": "160"}
    return {**os.environ, **own, "ELASTANE_HOME": str(folder / "home-of-the-user")}


def run(folder: Path, *arguments: str, timeout_s: float = 120.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )


def processes_below(folder: Path) -> Iterator[int]:
    """Whoever was started with a home in this folder; ourselves have none."""
    mark = f"ELASTANE_HOME={folder}/tmp/".encode()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                yield int(entry.name)
        except OSError:
            continue


def is_clean(folder: Path) -> bool:
    own = list((folder / "tmp").glob("elastane*"))
    return not own and not list(processes_below(folder)) and not (folder / "home-of-the-user").exists()


def test_the_simulation_speaks_json(tmp_path: Path) -> None:
    done = run(tmp_path, "--sim", "--workload", "pollux:6,jobs=4", "--json")
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["policies"]) == {"pollux", "optimus", "tiresias", "fifo"}


def test_the_simulation_writes_its_report(tmp_path: Path) -> None:
    done = run(tmp_path, "--sim", "--workload", "pollux:6,jobs=12")
    assert "fifo" in done.stdout
    assert "12 training jobs" in done.stderr
    assert (tmp_path / "report.html").stat().st_size > 100_000


@pytest.mark.parametrize("arguments", [("--workload", "pollux:6"), ("--no-cache",)])
def test_options_of_the_simulation_need_it(arguments: Sequence[str], tmp_path: Path) -> None:
    done = run(tmp_path, *arguments)
    assert done.returncode == 2
    assert done.stderr == f"error: {arguments[0]}: only the simulation has one; add --sim\n"


def test_a_report_that_cannot_be_written_is_refused_before_anything_starts(tmp_path: Path) -> None:
    done = run(tmp_path, "--html", "/proc/report.html")
    assert done.returncode == 2
    assert "--html" in done.stderr
    assert is_clean(tmp_path)


class Recorded(Play):
    """A play that was seen before."""

    def __init__(self, scenes: Sequence[Scene]) -> None:
        self.began_s = 1000.0
        self.lines = []
        self._recorded = scenes

    def scenes(self) -> Iterator[Scene]:
        for scene in self._recorded:
            self.lines += scene.lines
            yield scene


def summary(**more: object) -> JobSummary:
    facts = {"id": "j1", "name": "cnn", "tenant": "default", "owner": "admin", "state": "running"}
    return JobSummary.model_validate({**facts, "kind": "adaptive", "submitted_s": 1000.0, **more})


SCENES = [
    Scene(1001.0, (summary(state="queued"),), (Line(1001.0, "cnn arrives: \x1b[31mred"),)),
    Scene(1002.0, (summary(state="queued"),), ()),
    Scene(
        1003.0,
        (summary(workers=2, nodes={"n0": 2}, batch=512, goodput=1234.5, progress=0.25, max_workers=4),),
        (Line(1002.5, "cnn grew 1→2 in 8 ms"),),
    ),
]


def test_without_a_terminal_there_is_a_line_for_every_change_and_none_between(
    capsys: pytest.CaptureFixture[str],
) -> None:
    demo_show.show_plain(Recorded(SCENES), err=False)
    assert capsys.readouterr().out.splitlines() == [
        "   1.0 s  cnn arrives: \\x1b[31mred",
        "   1.0 s    cnn (adaptive) queued, 0 slots",
        "   2.5 s  cnn grew 1→2 in 8 ms",
        "   3.0 s    cnn (adaptive) running, 2 slots (n0:2), batch 512, goodput 1,234, 25 % done",
    ]


def test_on_a_terminal_the_table_has_what_is_known_and_the_story_under_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    demo_show.show_live(Recorded(SCENES))
    shown = capsys.readouterr().out
    for part in ("job", "goodput", "2 (1–4)", "n0:2", "512", "1,234", "25 %", "cnn grew 1→2 in 8 ms"):
        assert part in shown
    assert "\x1b[31mred" not in shown


@pytest.mark.slow
def test_the_demo_runs_five_jobs_through_two_kills_and_leaves_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, "--json", timeout_s=540)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["succeeded"]
    jobs = {job["name"]: job for job in result["jobs"]}
    assert {job["kind"] for job in jobs.values()} == {"adaptive", "command", "resizable"}
    assert [job["state"] for job in jobs.values()] == ["succeeded"] * 5
    assert len(result["killed"]["workers"]) == 1
    assert len(result["killed"]["agents"]) == 1
    assert sum(job["reallocations"] for job in jobs.values()) >= 2
    for job in jobs.values():
        assert job["accuracy"] == pytest.approx(job["accuracy_alone"], abs=0.05)
    assert result["cleaned"]["processes_left"] == 0
    assert result["cleaned"]["home_removed"]
    assert "killed worker" in done.stderr
    assert "killed the agent" in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "report.html").stat().st_size > 1_000_000
    assert is_clean(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    process = subprocess.Popen(
        command(), cwd=tmp_path, env=environment(tmp_path), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    guard = threading.Timer(120, process.kill)
    guard.start()
    assert process.stdout is not None
    assert any("trains with" in line for line in process.stdout), "no job ever trained"
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    guard.cancel()
    assert process.returncode == 130
    assert "interrupted; nothing was left behind" in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "report.html").exists()
    assert is_clean(tmp_path)
