"""What the demo leaves behind: nothing, whatever state it was in."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastane.demo.baseline import run_alone
from elastane.demo.cast import CAST, SCRIPTS, Role
from elastane.demo.journals import Journals
from elastane.demo.stage import Stage
from elastane.jobs import parse_spec
from elastane.train.coordinator.script_kind import kind_of
from elastane.train.reports.event_file import FILE_NAME
from elastane.train.reports.event_lines import line_of
from elastane.train.reports.events import Warned

_WAIT = "import sys, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); sys.stdin.read()"


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("elastane.demo.stage._END_S", 0.1)
    place = Stage()
    yield place
    place.close()


def test_a_demo_has_a_home_of_its_own(stage: Stage, tmp_path: Path) -> None:
    assert stage.home.parent.parent == tmp_path.resolve()
    assert stage.workplace("cnn").is_dir()
    assert stage.processes() == []


def test_closing_ends_every_process_of_the_home_and_removes_it(stage: Stage) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _WAIT], env=stage.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    assert stage.processes() == [process.pid]
    cleaned = stage.close()
    assert process.wait(30) == -9
    assert (cleaned.ended, cleaned.killed, cleaned.left) == (0, 1, 0)
    assert cleaned.all_gone
    assert not stage.home.parent.exists()


def test_closing_twice_does_no_harm(stage: Stage) -> None:
    assert stage.close().all_gone
    assert stage.close().all_gone


def test_journals_give_each_event_once_and_remember_all(stage: Stage) -> None:
    journals = Journals(stage.layout)
    assert journals.fresh("j1") == []
    records = stage.layout.records("j1")
    records.mkdir(parents=True)
    first, second = Warned(1.0, "one"), Warned(2.0, "two")
    whole = line_of(first) + line_of(second)
    (records / FILE_NAME).write_bytes(whole[:-5])
    assert journals.fresh("j1") == [first]
    (records / FILE_NAME).write_bytes(whole)
    assert journals.fresh("j1") == [second]
    assert journals.fresh("j1") == []
    assert journals.events("j1") == (first, second)
    assert journals.events("j2") == ()


def test_scripts_run_alone_report_what_they_reached_or_nothing(stage: Stage, tmp_path: Path) -> None:
    good, bad = (tmp_path / f"{name}.py" for name in ("good", "bad"))
    good.write_text(
        "import os, json; json.dump({'epoch': 3, 'accuracy': 0.75}, open('score.json', 'w'));"
        "print('epoch 9: accuracy 0.9', os.environ['WORLD_SIZE'])"
    )
    bad.write_text("raise SystemExit('no')")
    roles = [
        Role("good", str(good.with_suffix("")), (), "", 0.0, alone={"WORLD_SIZE": "1"}),
        Role("bad", str(bad.with_suffix("")), (), "", 0.0),
    ]
    told: dict[str, float | None] = {}
    assert run_alone(stage, roles, told.__setitem__) == {"good": 0.75, "bad": None}
    assert told == {"good": 0.75, "bad": None}


@pytest.mark.parametrize("role", CAST, ids=lambda role: role.name)
def test_every_role_is_a_valid_job_with_a_script(role: Role) -> None:
    spec = parse_spec(role.spec())
    assert spec.name == role.name
    assert (SCRIPTS / f"{role.script}.py").is_file()


def test_the_cast_has_every_kind_of_job_and_arrives_over_time() -> None:
    kinds = {role.name: kind_of((SCRIPTS / f"{role.script}.py").read_bytes()).kind.value for role in CAST}
    assert kinds == {
        "cnn": "adaptive", "grammar": "adaptive", "rows": "command", "mlp": "adaptive", "torchrun": "resizable",
    }  # fmt: skip
    arrivals = [role.arrives_s for role in CAST]
    assert arrivals == sorted(set(arrivals))


def test_the_unmodified_script_knows_nothing_of_elastane() -> None:
    text = (SCRIPTS / "torchrun.py").read_text()
    assert "elastane" not in text.partition('"""')[2].partition('"""')[2]
