"""The examples run, and the guide speaks of what there is."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from elastane.train.reports.event_file import load_run
from elastane.train.reports.summary import summarise
from elastane.train.script.api import Job
from train.running import CHANGES, train

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
GUIDE = ROOT / "docs" / "elastic.md"


def run(command: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    """In a directory of its own, with one thread; standard error is part of the message if it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ELASTANE_")}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=directory,
        env={**environment, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize(
    ("script", "arguments", "steps"),
    [
        ("digits_mlp.py", [], 24),
        ("micro_steps.py", ["--blocks=256"], 4),
        ("gan_digits.py", [], 28),
        pytest.param("digits_cnn.py", [], 24, marks=pytest.mark.slow),
        pytest.param("digits_cnn.py", ["--mode=adaptive"], 24, marks=pytest.mark.slow),
        pytest.param("transformer.py", ["--sentences=640"], 10, marks=pytest.mark.slow),
        pytest.param("vae.py", ["--mode=adaptive"], 24, marks=pytest.mark.slow),
        pytest.param("accelerate_digits.py", ["--mode=adaptive"], 24, marks=pytest.mark.slow),
    ],
)
def test_an_example_runs_alone(script: str, arguments: list[str], steps: int, tmp_path: Path) -> None:
    run([str(EXAMPLES / script), "--epochs=1", *arguments], tmp_path)
    (folder,) = (tmp_path / "runs").iterdir()
    summary = summarise(load_run(folder))
    assert (summary.outcome, summary.steps) == ("finished", steps)
    assert f"--mode={summary.mode}" in [*arguments, "--mode=fixed"]
    assert summary.final_metrics


def test_an_example_runs_elastically_and_says_so_in_json(tmp_path: Path) -> None:
    command = ["-m", "elastane", "train", "--workers=2", "--run=digits", "--json"]
    done = run([*command, str(EXAMPLES / "digits_mlp.py"), "--epochs=2"], tmp_path)
    summary = json.loads(done.stdout)
    assert summary["ended"]["outcome"] == summary["outcome"] == "finished"
    assert summary["steps"] == 48
    assert [workers for _, workers in summary["workers"]] == [2]
    assert "epoch 1: accuracy" in done.stderr


def test_micro_steps_end_alike_alone_and_with_three_workers(tmp_path: Path) -> None:
    arguments = [str(EXAMPLES / "micro_steps.py"), "--epochs=1", "--blocks=512"]
    run(arguments, tmp_path)
    (folder,) = (tmp_path / "runs").iterdir()
    alone = summarise(load_run(folder)).final_metrics
    run(["-m", "elastane", "train", "--workers=3", "--run=three", *arguments], tmp_path)
    three = summarise(load_run(tmp_path / "three")).final_metrics
    assert three == pytest.approx(alone, rel=1e-2)


@pytest.mark.slow
def test_two_networks_train_against_each_other_through_resizes_and_a_kill(tmp_path: Path) -> None:
    done = train("until_enough.py", tmp_path / "run", str(EXAMPLES / "gan_digits.py"), wishes=CHANGES)
    assert done.ended.outcome == "finished", done.ended
    assert len(done.lost) == 1
    assert max(change.after for change in done.resized) == 3
    metrics = summarise(done.events).final_metrics
    assert metrics["spread"] < 0.6  # of pixels between -1 and 1; 0 is that of the digits


@cache
def texts() -> str:
    """Every piece of text in the source between two things that are filled in, one per line."""
    pieces = []
    for path in (ROOT / "src" / "elastane" / "train").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                pieces.append(" ".join(node.value.split()))
    return "\n".join(pieces)


def messages() -> list[str]:
    """What the troubleshooting table explains, except messages that are not ours."""
    table = GUIDE.read_text().split("## Troubleshooting")[1].split("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)


def test_the_guide_explains_messages_that_exist() -> None:
    explained = messages()
    assert len(explained) > 30
    for message in explained:
        for piece in message.split("…"):
            assert piece.strip() in texts(), f"{piece!r} of {message!r}"


def test_the_guide_names_everything_a_job_offers() -> None:
    guide = GUIDE.read_text()
    offered = [name for name in vars(Job) if not name.startswith("_")]
    assert len(offered) > 15
    assert [name for name in offered if not re.search(rf"\bjob\.{name}\b", guide)] == []


def test_the_guide_counts_the_changed_lines_of_its_script_rightly() -> None:
    diff = GUIDE.read_text().split("```diff\n")[1].split("```")[0].splitlines()
    added, removed = (sum(line.startswith(sign) for line in diff) for sign in "+-")
    assert (added, removed) == (8, 6)


def test_every_test_that_the_guide_names_exists() -> None:
    rows = GUIDE.read_text().split("## What your script may do")[1].split("\n## ")[0]
    named = re.findall(r"`(test_\w+\.py)(?:::(test_\w+))?`", rows)
    assert len(named) > 5
    for file, test in named:
        assert f"def {test or 'test_'}" in (Path(__file__).parent / file).read_text()
