"""The command line as people and scripts use it: real processes, real files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


def elastane(*arguments: str, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "elastane", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(cwd / "cache"), "COLUMNS": "160"},
        timeout=120,
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def test_sim_writes_table_json_and_html_and_caches(tmp_path: Path) -> None:
    command = (
        "sim",
        "pollux:3,jobs=10",
        "--policy",
        "pollux,tiresias,fifo",
        "--nodes",
        "4",
        "--gpus-per-node",
        "4",
    )
    done = elastane(*command, "--json", "out.json", "--html", "r.html", "--jobs", "1", cwd=tmp_path)
    assert "pollux" in done.stdout
    assert "tiresias" in done.stdout
    document = json.loads((tmp_path / "out.json").read_text())
    assert set(document["policies"]) == {"pollux", "tiresias", "fifo"}
    for result in document["policies"].values():
        assert result["jobs"] == 10
        for key in ("mean_jct_s", "p99_jct_s", "makespan_s", "wall_s", "decision_ms_p50"):
            assert isinstance(result[key], float)
    page = (tmp_path / "r.html").read_text()
    assert "<script src=" not in page
    assert len(list((tmp_path / "cache" / "elastane" / "sim").glob("*.json.gz"))) == 3
    again = elastane(*command, "--json", "-", "--jobs", "1", cwd=tmp_path)
    assert json.loads(again.stdout)["policies"]["pollux"] == document["policies"]["pollux"]


def test_sweeps_are_reported_point_by_point(tmp_path: Path) -> None:
    done = elastane(
        "sim", "pollux:3,jobs=6", "--policy", "fifo", "--nodes", "4", "--load", "0.5,1,2",
        "--json", "-", "--html", "s.html", "--jobs", "1", "--no-cache", cwd=tmp_path,
    )  # fmt: skip
    sweep = json.loads(done.stdout)["sweep"]
    assert [point["value"] for point in sweep] == [0.5, 1.0, 2.0]
    assert not (tmp_path / "cache").exists()


def test_policies_lists_everything_as_table_and_json(tmp_path: Path) -> None:
    names = {row["name"] for row in json.loads(elastane("policies", "--json", cwd=tmp_path).stdout)}
    assert {"fifo", "easy", "drf", "srtf", "srsf", "tiresias", "optimus", "optimus-oracle", "pollux"} <= names
    assert "OSDI'21" in elastane("policies", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sim", "pollux:1", "--policy", "polux"), "unknown policy 'polux'; did you mean 'pollux'?"),
        (("sim", "pollux:1", "--policy", "pollux(q=1)"), "has no option 'q'"),
        (("sim", "pollux:1", "--policy", "pollux(p=low)"), "option p is a number, not 'low'"),
        (("sim", "nowhere.csv"), "nowhere.csv"),
        (("sim", "pollux:1", "--profiles", "nowhere"), "nowhere"),
        (("sim", "pollux:1", "--load", "much"), "--load takes numbers"),
        (("sim", "pollux:1", "--gpu-type", "h100"), "no accelerator 'h100'"),
        (("sim", "pollux:1", "--compat", "osdi"), "unknown --compat 'osdi'"),
        (("sim", "pollux:1", "--policy", "fifo,fifo"), "different policies"),
    ],
)
def test_mistakes_get_one_clear_line_and_exit_code_2(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    done = elastane(*arguments, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bad_row_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("name,time,application,num_replicas,batch_size\na,ten,cifar10,1,128\n")
    done = elastane("sim", "w.csv", "--policy", "fifo", cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "line 2" in done.stderr
    assert "'ten'" in done.stderr


def test_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "elastane", "sim", "synth:philly,jobs=20000,days=7", "--policy", "tiresias,fifo",
         "--nodes", "128", "--gpus-per-node", "8", "--jobs", "2", "--skip-bad", "--html", "r.html"],
        cwd=tmp_path, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not _children(process.pid):
        time.sleep(0.05)
    children = _children(process.pid)
    assert children
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not any(_alive(child) for child in children)
    assert not (tmp_path / "r.html").exists()


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in tasks.read_text().split()] if tasks.exists() else []


def _alive(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    try:
        return state.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_demo_writes_its_report(tmp_path: Path) -> None:
    done = elastane("demo", "--workload", "pollux:6,jobs=12", cwd=tmp_path)
    assert "fifo" in done.stdout
    assert (tmp_path / "report.html").stat().st_size > 100_000
