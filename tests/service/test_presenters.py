"""A job that has its place and shows no step yet says why."""

from __future__ import annotations

from elastane.jobs.states import State
from elastane.service.control.job_measurements import JobMeasurements
from elastane.service.presenters import summary
from elastane.service.store.rows import JobRow
from elastane.train.reports.events import Stepped, Warming


def row(state: State) -> JobRow:
    return JobRow(
        number=1,
        name="digits",
        tenant="default",
        owner="ann",
        state=state,
        kind="adaptive",
        spec={},
        directory="/tmp",
        submitted_s=0.0,
    )


def test_compile_and_warm_up_time_is_shown_as_such_until_the_first_step() -> None:
    learned = JobMeasurements("adaptive")
    learned.hear(Warming(100.0, "w1", 20.0))
    assert summary(row(State.RUNNING), learned, 120.0, "").reason == (
        "worker w1 is compiling or warming up for 40 s, in one of its first steps"
    )
    assert summary(row(State.QUEUED), learned, 120.0, "").reason == ""
    learned.hear(Stepped(121.0, step=1, epoch=0, workers=1, batch=8, steps=1, step_s=0.1))
    assert summary(row(State.RUNNING), learned, 122.0, "").reason == ""


def test_a_start_that_takes_long_is_told_as_a_start() -> None:
    learned = JobMeasurements("adaptive")
    learned.hear(Warming(100.0, "", 20.0))
    told = summary(row(State.STARTING), learned, 100.0, "").reason
    assert told == "starting for 20 s: importing and building the model"
