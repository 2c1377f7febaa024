"""Jobs about to end are left alone, for as long as that can be believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastane.jobs.states import State
from elastane.policies.plan import Fill, Order, Plan
from elastane.service.control.job_measurements import JobMeasurements
from elastane.service.control.near_end import seconds_left
from elastane.testing.engines.fake_work import Delays
from service.helpers import Strange, World, started, window, world

SLOW_START = Delays(start_s=10.0)


def near_its_end(w: World) -> str:
    """A job that has held the only slot for a while, and has some three seconds left."""
    job = started(w, samples=10_000)
    w.until(lambda: (w.live(job).learned.fraction or 0.0) >= 0.97, by_s=0.5)
    return job


def suspend_everything(w: World) -> None:
    """From now on the policy wants the slot for whoever came last, and for nobody else."""
    other = w.submit(samples=100)
    w.plane.decisions.use_policy(
        Strange(lambda view: Plan(Order((other,) if other in view.jobs else (), Fill.SKIP)))
    )


@pytest.mark.parametrize("killed", [False, True])
def test_a_job_about_to_end_keeps_its_place(tmp_path: Path, killed: bool) -> None:
    with world(tmp_path, nodes=1, slots=1, delays=SLOW_START, min_run_s=0.0) as w:
        job = near_its_end(w)
        w.plane.seen_by(w.plane.policy, None, "tick")
        if killed:  # what it says then, having begun anew with another worker
            w.live(job).learned.fractions = w.live(job).learned.fractions[-1:]
        suspend_everything(w)
        w.until_state(job, State.SUCCEEDED)
        assert "suspend" not in w.causes(job)


def test_one_that_is_always_about_to_end_is_not_protected_for_ever(tmp_path: Path) -> None:
    with world(tmp_path, nodes=1, slots=1, delays=SLOW_START) as w:
        job = near_its_end(w)
        live, now_s = w.live(job), w.clock.now_s
        again_s = live.learned.start_s + live.learned.restart.estimate().mean
        assert live.finish.near(live, now_s)
        assert live.finish.near(live, now_s + 2.9 * again_s)
        assert not live.finish.near(live, now_s + 3.2 * again_s)


def test_a_job_with_much_left_can_be_taken_from(tmp_path: Path) -> None:
    with world(tmp_path, nodes=1, slots=1, delays=SLOW_START) as w:
        job = started(w, samples=100_000)
        w.pass_time(20.0)
        assert not w.plane.seen_by(w.plane.policy, None, "tick").view.jobs[job].pinned


def test_time_left_follows_the_pace_and_is_never_negative() -> None:
    learned = JobMeasurements("adaptive")
    assert seconds_left(learned, 0.0) is None
    for at_s, part in ((1.0, 0.5), (2.0, 0.7), (3.0, 0.9)):
        learned.hear(window(at_s, part))
    assert seconds_left(learned, 3.0) == pytest.approx(0.5)
    assert str(seconds_left(learned, 50.0)) == "0.0"
