"""A worker that compiles in its first steps is left alone; one that does nothing, or hangs later, is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from elastane.train.coordinator.cpu_activity import EarlyEffort, processor_seconds
from elastane.train.coordinator.hang_detection import HangLimits, first_steps, hung
from elastane.train.coordinator.scripted_events import Wish
from elastane.train.coordinator.worker_activity import Activity
from elastane.train.coordinator.worker_table import Phase, Worker
from train.running import train

LIMITS = HangLimits(usual_s=5.0, early_idle_s=120.0, early_s=1800.0)


def member(name: str, doing: Activity, step: int, since_s: float = 0.0) -> Worker:
    worker = Worker(name, Phase.MEMBER)
    worker.beat.step, worker.beat.doing, worker.beat.since_s = step, doing, since_s
    return worker


def busy(step: int, *, share: float, until_s: float) -> Worker:
    """Computes its first step at ``step`` since the beginning, and uses this share of a processor."""
    worker = member("w2", Activity.COMPUTING, step)
    for tenth in range(int(until_s * 2) + 1):
        now_s = tenth / 2
        worker.effort.hear(step, Activity.COMPUTING, share * now_s, now_s)
    return worker


def waiting(step: int) -> Worker:
    return member("w1", Activity.WAITING, step)


def test_a_worker_at_work_in_its_first_steps_is_given_half_an_hour() -> None:
    for step in (0, 1000):  # the job's first one, and the first one of a worker that joins
        at_work = busy(step, share=0.5, until_s=1700.0)
        assert hung([waiting(step), at_work], LIMITS, 1700.0) is None
        assert hung([waiting(step), at_work], LIMITS, 1801.0) is at_work


def test_one_that_does_nothing_in_its_first_steps_is_given_two_minutes() -> None:
    idle = busy(0, share=0.004, until_s=130.0)
    assert hung([waiting(0), idle], LIMITS, 119.0) is None
    assert hung([waiting(0), idle], LIMITS, 130.0) is idle


def test_later_the_usual_limit_holds_for_all() -> None:
    late = busy(4, share=1.0, until_s=1.0)
    late.effort.hear(7, Activity.COMPUTING, None, 1.0)
    late.beat.step = 7
    assert hung([waiting(7), late], LIMITS, 4.0) is None
    assert hung([waiting(7), late], LIMITS, 6.0) is late


def test_nobody_hangs_while_nobody_waits() -> None:
    assert hung([member("w1", Activity.COMPUTING, 9), member("w2", Activity.COMPUTING, 9)], LIMITS, 1e6) is None


def test_who_is_longest_in_its_first_steps_can_be_told() -> None:
    late = member("w3", Activity.COMPUTING, 9, since_s=1.0)
    late.effort.hear(5, Activity.COMPUTING, None, 0.0)
    early = member("w2", Activity.COMPUTING, 5, since_s=2.0)
    assert first_steps([waiting(5), late, early], 42.0) == ("w2", 40.0)
    assert first_steps([waiting(5), late], 42.0) is None


def test_the_work_of_children_counts() -> None:
    before_s = processor_seconds()
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert processor_seconds() >= before_s + 0.25


def test_a_worker_tells_of_its_work_in_the_first_steps_of_each_generation() -> None:
    effort = EarlyEffort()
    assert effort.told(0, Activity.WARMING, 0) is None
    assert [effort.told(step, Activity.COMPUTING, 1) is not None for step in range(5)] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert effort.told(5, Activity.COMPUTING, 2) is not None


@pytest.mark.slow
def test_a_joiner_that_compiles_in_its_first_step_is_not_taken_for_hung(tmp_path: Path) -> None:
    wishes = (Wish(20, "resize", 2, steps=True),)
    done = train("compiling.py", tmp_path / "run", wishes=wishes)
    assert done.ended.outcome == "finished", done.ended
    assert not done.lost
    assert len(done.resized) >= 1
