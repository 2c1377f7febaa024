"""Benchmarks run what was chosen; what cannot be measured is a missed gate, and nothing is left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.harness import Bench, Stuck, Suite, processes_of, run


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are written below the present folder, and benchmarks' own folders are temporary files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("signal.signal", lambda *_: None)


def measured(suite: Suite, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int | str | None, Path]:
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    with pytest.raises(SystemExit) as ended:
        run(suite)
    return ended.value.code, Path("build/bench")


def test_groups_that_were_chosen_run_in_folders_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int, int, tuple[str, ...]]] = []

    def group(bench: Bench) -> None:
        (bench.folder / "file").write_text("x")
        seen.append((bench.folder.name, bench.count(100, 2), bench.seed, bench.cases))

    suite = Suite("made-up", "about", dict.fromkeys(("a", "b", "c"), group), whole="all", cases="poison")
    code, folder = measured(
        suite, monkeypatch, "--only", "c", "--only", "a", "--quick", "--seed", "7", "--poison", "p"
    )
    assert (code, seen) == (0, [("c", 2, 7, ("p",)), ("a", 2, 7, ("p",))])
    assert [path.name for path in folder.iterdir()] == ["made-up-c-a.json"]
    assert measured(suite, monkeypatch)[0] == 0
    assert [each[:2] for each in seen[2:]] == [("a", 100), ("b", 100), ("c", 100)]
    assert (folder / "all.json").exists()
    assert list(Path().glob("elastane-*")) == []


@pytest.mark.parametrize("problem", [Stuck("no answer"), ValueError("a mistake")])
def test_a_group_that_cannot_be_measured_misses_a_gate_and_hides_no_other(
    monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    def broken(bench: Bench) -> None:
        raise problem

    def whole(bench: Bench) -> None:
        bench.figures.at_least("reached", 2, 1, "gate")

    code, folder = measured(Suite("made-up", "about", {"broken": broken, "whole": whole}), monkeypatch)
    assert code == 1
    figures = json.loads((folder / "made-up.json").read_text())
    assert [(each["name"], each["ok"]) for each in figures] == [
        ("broken: measured to the end", False),
        ("reached", True),
    ]


def test_no_process_of_a_folder_outlives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    places: list[Path] = []

    def group(bench: Bench) -> None:
        sleeping = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
        environment = {**os.environ, "HERE": str(bench.folder)}
        started.append(subprocess.Popen(sleeping, env=environment, stdout=subprocess.PIPE))
        assert started[0].stdout is not None
        started[0].stdout.readline()  # its environment is its own from the moment it runs
        places.append(bench.folder)
        assert processes_of(bench.folder) == [started[0].pid]

    assert measured(Suite("made-up", "about", {"a": group}), monkeypatch)[0] == 0
    assert started[0].wait(60) == -9
    assert not places[0].exists()


def test_a_suite_whose_groups_need_no_folders_has_no_options_that_would_do_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    suite = Suite("made-up", "about", {"a": lambda _: None}, works_in_folders=False)
    assert measured(suite, monkeypatch, "--quick")[0] == 2
    assert measured(suite, monkeypatch)[0] == 0


@pytest.mark.parametrize("name", ["live", "train", "predict"])
def test_every_suite_can_be_asked_what_it_measures(name: str) -> None:
    root = Path(__file__).parents[1]
    said = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--help"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--only" in said.stdout
