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

from elastane.cli.main import app
from elastane.cli.output import check_targets
from elastane.errors import ElastaneError
from elastane.sim import run_many


def elastane(
    *arguments: str, cwd: Path, check: bool = True, columns: int = 160
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "elastane", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(cwd / "cache"), "COLUMNS": str(columns)},
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
        (("sim", "pollux:1", "--no-no-cache"), "No such option"),
    ],
)
def test_mistakes_get_one_clear_line_and_exit_code_2(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    done = elastane(*arguments, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


WRONG = [
    ("--policy fifo,fifo", "different policies"),
    ("--policy fifo,fifo(mode=strict)", "fifo(mode=strict) is there twice"),
    *((f"--interval {n}", "--interval must be above 0 and finite") for n in ("nan", "inf", "0")),
    *((f"--restart {n}", "--restart must be 0 or more and finite") for n in ("nan", "inf", "-1")),
    *((f"--failures {n}", "--failures must be") for n in ("nan", "inf", "-1")),
    *((f"--noise {n}", "--noise must be") for n in ("nan", "inf", "-1", "2.1")),
    *((f"--interference {n}", "--interference is a fraction") for n in ("nan", "inf", "1")),
    *((f"--load {n}", "--load must be") for n in ("nan", "inf", "0")),
    *((f"--rigid {n}", "--rigid is a fraction") for n in ("nan", "inf", "1.1")),
    *((f"--fixed-batch {n}", "--fixed-batch is a fraction") for n in ("nan", "inf")),
    *((f"--seed {n}", "--seed takes whole numbers") for n in ("nan", "1.5", "-1", "1,x")),
    ("--seed 0,0", "--seed needs different values"),
    ("--load 1,1.0", "--load needs different values"),
    *((f"--{name} ,", f"--{name} needs at least one value") for name in ("seed", "load", "interval")),
    ("--load 1,2 --interval 30,60", "not --load and --interval together"),
    ("--load 1e9", "load 1e+09 makes more than 1,000,000 jobs"),
    ("--format philly", "--format is for trace files"),
    ("--html .", "--html . cannot be written: Is a directory"),
    ("--json .", "--json . cannot be written: Is a directory"),
    ("--html file/r.html", "--html file/r.html cannot be written: Not a directory"),
    ("--json file/new/r.json", "--json file/new/r.json cannot be written: Not a directory"),
    ("--html /proc/r.html", "--html /proc/r.html cannot be written"),
    ("--json x --html x", "cannot both be x"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_wrong_values_are_refused_before_any_simulation(
    options: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def simulated(*_: object) -> None:
        raise AssertionError("a simulation was started")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_many, "simulate", simulated)
    (tmp_path / "file").touch()
    arguments = ["sim", "pollux:1", "--jobs", "1", "--no-cache", "--policy", "fifo", *options.split()]
    with pytest.raises(ElastaneError) as caught:
        app(arguments, standalone_mode=False)
    assert message in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("target", ["shut/r.html", "shut/new/r.html", "kept"])
def test_forbidden_targets_are_refused(target: str, tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0o500)
    (tmp_path / "kept").touch(mode=0o400)
    with pytest.raises(ElastaneError, match="Permission denied"):
        check_targets(None, tmp_path / target)


def test_checking_targets_changes_nothing(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text("before")
    check_targets(str(kept), tmp_path / "new" / "deep" / "r.html")
    check_targets("-", tmp_path / "r.html")
    check_targets("/dev/null", None)
    assert kept.read_text() == "before"
    assert list(tmp_path.iterdir()) == [kept]


@pytest.mark.parametrize("verb", ["sim", "demo"])
def test_switches_have_no_opposite(verb: str, tmp_path: Path) -> None:
    text = elastane(verb, "--help", cwd=tmp_path).stdout
    assert "--no-cache" in text
    assert "--no-no-cache" not in text
    assert "--no-skip-bad" not in text


@pytest.mark.parametrize("width", [60, 80])
def test_policies_break_no_word_on_narrow_terminals(width: int, tmp_path: Path) -> None:
    text = elastane("policies", cwd=tmp_path, columns=width).stdout
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    words = set(text.replace(",", " ").split())
    assert {"optimus-oracle", "fair_on_one_node=True", "thresholds=57600", "generations=100"} <= words


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [("policies",), ("policies", "--json"), ("--help",)])
def test_a_full_disk_is_one_line_and_exit_code_1(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "elastane", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    assert done.stderr == "error: No space left on device\n"


def test_a_bad_row_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("name,time,application,num_replicas,batch_size\na,ten,cifar10,1,128\n")
    done = elastane("sim", "w.csv", "--policy", "fifo", cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "line 2" in done.stderr
    assert "'ten'" in done.stderr
    assert "--skip-bad" in done.stderr


def test_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "elastane", "sim", "synth:philly,jobs=20000,days=7", "--policy", "tiresias,fifo",
         "--nodes", "128", "--gpus-per-node", "8", "--jobs", "2", "--skip-bad", "--html", "r.html"],
        cwd=tmp_path, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=_hear_interrupts,
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
    assert "interrupted; nothing was left behind" in errors
    assert not any(_alive(child) for child in children)
    assert not (tmp_path / "r.html").exists()


def _hear_interrupts() -> None:
    """Whoever started the tests in the background may have had interrupts ignored, which is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in tasks.read_text().split()] if tasks.exists() else []


def _alive(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    try:
        return state.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
