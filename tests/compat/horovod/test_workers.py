"""Several workers: collectives, and rounds that end with other members."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command], env=ONE_THREAD, capture_output=True, text=True, timeout=180
    )


@pytest.mark.slow
def test_collectives_of_two_workers_under_torchrun() -> None:
    script = str(HERE / "collectives.py")
    done = run("torch.distributed.run", "--standalone", "--nproc-per-node", "2", script)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_workers_come_go_and_die_and_no_committed_step_is_lost_or_made_twice(tmp_path: Path) -> None:
    folder, found = tmp_path / "run", tmp_path / "found.json"
    script = str(HERE / "elastic_phases.py")
    done = run("elastane", "train", "--workers", "3", "--run", str(folder), script, str(found))
    assert done.returncode == 0, done.stderr
    results = json.loads(found.read_text())
    assert results["weight"] == -results["batch"]
    assert results["sizes"] == [2, 1, 2, 3]
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    resized = [event for event in events if event["type"] == "resized"]
    assert {event["kind"] for event in resized} == {"start", "grow", "recover", "shrink"}
    assert all("sync" in event["breakdown"] for event in resized)
    assert events[-1]["outcome"] == "finished"
