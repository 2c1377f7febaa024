"""The benchmark of the cluster reads steps and checkpoints rightly, refuses where it cannot run, and runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.cluster import __main__ as bench
from benchmarks.cluster.results import tell
from benchmarks.cluster.scale import scale
from benchmarks.cluster.stamps import (
    Step,
    again_s,
    excess_s,
    longest_gap_s,
    out_of_order,
    steps_of,
    trained_at_once,
    trained_twice,
)
from benchmarks.figures import Figures
from benchmarks.harness import Bench, Stuck
from benchmarks.train.live import ROOT
from benchmarks.train.timeline import Diary, Lap

from elastane.testing.hosts import why_not
from elastane.testing.hosts.cluster import cores_of

PATIENCE_S = 500.0
MOVE = (("w1", 1, 6, 0.0), ("w2", 6, 9, 0.015))


def test_survivors_train_again_with_the_second_step_that_they_complete() -> None:
    steps = [
        Step(7, "w1", 9.9, 3),
        Step(8, "w1", 10.1, 3),
        Step(8, "w3", 10.2, 3),
        Step(9, "w1", 10.5, 2),
        Step(9, "w2", 10.6, 2),
    ]
    assert again_s(steps, {"w1", "w2"}, 10.0) == pytest.approx(0.5)
    assert again_s(steps[:3], {"w1", "w2"}, 10.0) is None


def test_the_pause_of_a_move_is_what_lies_beyond_a_usual_step() -> None:
    old, new = ([Step(n, name, n * 0.1 + late, 1) for n in range(a, b)] for name, a, b, late in MOVE)
    assert excess_s([*old, *new], ["w1"], ["w2"]) == pytest.approx(0.015)


def test_the_longest_time_without_a_step_counts_from_the_notice_to_the_end() -> None:
    steps = [Step(number, "w0", float(number), 1) for number in range(10)]
    assert longest_gap_s(steps, 2.5, 9.5) == 0.0
    assert longest_gap_s([*steps, Step(10, "w1", 13.0, 1)], 2.5, 13.5) == 3.0, "a step takes 1 s, this one 4"
    assert longest_gap_s(steps, 2.5, 15.0) == 5.0, "nobody has trained since 9"
    late = [step for step in steps if step.number not in (3, 4)]
    assert longest_gap_s(late, 4.5, 9.5) == 0.0, "what was before the notice is not its doing"


def test_a_step_of_two_sets_of_workers_is_a_second_history() -> None:
    one = [Step(1, "w1", 1.0, 2), Step(1, "w2", 1.1, 2), Step(2, "w1", 2.0, 1)]
    assert trained_twice(one) == 0
    assert trained_twice([*one, Step(2, "w2", 3.0, 2)]) == 1
    assert trained_twice([*one, Step(1, "w1", 9.0, 2)]) == 1


def test_two_who_train_on_apart_are_found_and_a_restart_from_a_checkpoint_is_none() -> None:
    def laps(name: str, first: int, last: int, begun_s: float) -> Diary:
        return Diary(name, [Lap(n, s := begun_s + n - first, s + 0.9, 1, 0) for n in range(first, last)])

    assert not trained_at_once([laps("w0", 1, 9, 0.0), laps("w1", 4, 9, 3.05)]), "together"
    assert not trained_at_once([laps("w0", 1, 9, 0.0), laps("w1", 4, 9, 8.5)]), "after the death of the first"
    assert trained_at_once([laps("w0", 1, 9, 0.0), laps("w1", 2, 9, 5.05)])


def test_a_checkpoint_of_a_generation_that_was_over_is_found() -> None:
    good = [("checkpoint-1-4-a", 1.0), ("checkpoint-2-1-b", 2.0), ("checkpoint-2-2-b", 3.0)]
    assert out_of_order(good) == 0
    assert out_of_order([*good, ("checkpoint-1-5-a", 2.5)]) == 1


def test_steps_are_read_with_the_names_of_their_workers(tmp_path: Path) -> None:
    (tmp_path / "w12-77.txt").write_text("born 1.0\nlap 3 1.5 2.5 2 0\nlap 4 2.5")
    assert steps_of(tmp_path) == [Step(3, "w12", 2.5, 2)]


def test_the_longest_is_judged(tmp_path: Path) -> None:
    figures = Figures("made-up", tmp_path)
    tell(figures, "fast", [0.1, 0.2], 0.3)
    tell(figures, "slow", [0.1, 9.0], 0.3)
    tell(figures, "only said", [1.0])
    tell(figures, "nothing", [], 1.0)
    assert [(figure.value, figure.ok) for figure in figures.all] == [(0.2, True), (9.0, False)]


def test_hosts_share_cores_only_where_there_are_too_few() -> None:
    assert [cores_of(host, 2, range(8)) for host in range(4)] == ["0,1", "2,3", "4,5", "6,7"]
    assert [cores_of(host, 2, (0, 1)) for host in range(3)] == ["0,1", "0,1", "0,1"]
    assert [cores_of(host, 1, (4, 6)) for host in range(3)] == ["4", "6", "4"]


def test_where_there_can_be_no_hosts_it_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "why_not", lambda: "hosts in a box need root: sudo")
    monkeypatch.setattr(sys, "argv", ["bench"])
    with pytest.raises(SystemExit) as ended:
        bench.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "bench-cluster: hosts in a box need root: sudo\n"


def test_without_ray_no_pool_can_be_measured_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(Stuck, match=r"pip install 'elastane\[ray\]'"):
        scale(Bench(Figures("made-up", tmp_path), tmp_path))


@pytest.mark.slow
@pytest.mark.hosts
@pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")
def test_a_quick_run_kills_hosts_and_judges_what_it_saw(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cluster", "--quick", "--only", "killed"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    # How long it took is the machine's business here; that it was measured to the end, and one history, is not.
    figures = {
        each["name"]: each
        for each in json.loads((tmp_path / "build" / "bench" / "cluster-killed.json").read_text())
    }
    assert figures["killed: steps with two histories"]["ok"], done.stdout + done.stderr
    assert "killed: survivors step again, longest" in figures
    assert list(tmp_path.glob("elastane-*")) == []
