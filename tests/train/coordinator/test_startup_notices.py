"""Time without a step is told as what it is, at growing intervals."""

from __future__ import annotations

from elastane.train.coordinator.membership_plan import Kind, Plan
from elastane.train.coordinator.startup_notices import WarmingWatch
from elastane.train.reports.events import Warming
from elastane.train.reports.wording import sentence


class Job:
    """A job that has not begun, or whose worker is in its first steps since a moment."""

    current: Plan | None = None
    since_s: float | None = None

    def first_steps(self, now_s: float) -> tuple[str, float] | None:
        return None if self.since_s is None else ("w2", now_s - self.since_s)


def told(watch: WarmingWatch, job: Job, seconds: range) -> list[tuple[int, Warming]]:
    found = ((second, watch.look(job, float(second), 1000.0 + second)) for second in seconds)
    return [(second, event) for second, event in found if event is not None]


def test_it_is_said_after_ten_seconds_and_then_ever_more_rarely() -> None:
    job, watch = Job(), WarmingWatch(0.0)
    assert [second for second, _ in told(watch, job, range(100))] == [10, 20, 40, 80]


def test_each_stretch_is_told_for_itself() -> None:
    job, watch = Job(), WarmingWatch(0.0)
    told(watch, job, range(15))
    job.current, job.since_s = Plan(1, Kind.START, ("w1", "w2")), 15.0
    (moment, event), *_ = told(watch, job, range(15, 30))
    assert (moment, event) == (25, Warming(1025.0, "w2", 10.0))
    job.since_s = None
    assert not told(watch, job, range(30, 60))


def test_the_words_say_what_is_going_on() -> None:
    assert sentence(Warming(0.0, "", 40.0)) == "starting for 40 s: importing and building the model"
    compiling = "worker w2 is compiling or warming up for 40 s, in one of its first steps"
    assert sentence(Warming(0.0, "w2", 40.0)) == compiling
