"""What a policy's verdicts mean to live jobs: the same as to simulated ones, also after a crash."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from elastane.jobs.states import State
from elastane.policies.contract import Policy
from elastane.policies.plan import Admission, Fill, Order, Plan, Verdict
from elastane.policies.registry import make_policy
from elastane.policies.view import JobState, View
from elastane.scheduling.decide import decide
from service.helpers import Strange, World, started, world


class Ending(Strange):
    """Ends jobs that run, if it rejects them."""

    ends_jobs: ClassVar[bool] = True  # type: ignore[assignment,misc]


def judging(verdict: Verdict, *jobs: str, ends_jobs: bool = False) -> Strange:
    """Everybody may run, but for what is said of these jobs."""

    def answer(view: View) -> Plan:
        said = {job: Admission(verdict, f"because of {job}") for job in jobs if job in view.jobs}
        return Plan(Order(tuple(view.jobs), Fill.SKIP), admissions=said)

    return (Ending if ends_jobs else Strange)(answer)


def judged(w: World, policy: Strange) -> None:
    """Have a policy asked once more."""
    w.plane.decisions.use_policy(policy)
    w.plane.poke("test")
    w.round()


@pytest.mark.parametrize("kind", ["adaptive", "resizable", "rigid"])
def test_a_job_that_runs_is_ended_by_a_policy_that_ends_jobs(tmp_path: Path, kind: str) -> None:
    with world(tmp_path) as w:
        job, other = started(w, kind=kind, samples=100_000), started(w, samples=100_000)
        judged(w, judging(Verdict.REJECT, job, ends_jobs=True))
        assert w.state(job) is State.STOPPING
        w.until_state(job, State.REJECTED)
        assert w.row(job).reason == f"because of {job}"
        assert w.causes(job)[-2:] == ["end", "reject"]
        assert w.engine.workers_of(job) == {}
        assert job not in w.plane.live
        assert w.state(other) is State.RUNNING


def test_the_end_of_a_job_survives_a_crash(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = started(w, samples=100_000)
        judged(w, judging(Verdict.REJECT, job, ends_jobs=True))
        w.crash()
        w.until_state(job, State.REJECTED)


def test_a_job_that_finishes_while_it_is_ended_has_succeeded(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = started(w, samples=100_000)
        attempt = w.live(job).attempt
        judged(w, judging(Verdict.REJECT, job, ends_jobs=True))
        w.engine._finish(w.engine._runs[attempt], w.clock.now_s)
        w.until_state(job, State.SUCCEEDED)


def test_a_suspended_job_is_ended_where_it_waits(tmp_path: Path) -> None:
    with world(tmp_path, min_run_s=0.0) as w:
        job = started(w, samples=100_000)
        w.plane.decisions.use_policy(Strange(lambda view: Plan(Order(()))))
        w.plane.poke("test")
        w.until_state(job, State.SUSPENDED)
        judged(w, judging(Verdict.REJECT, job, ends_jobs=True))
        assert w.state(job) is State.REJECTED
        assert w.row(job).ended_s is not None


@pytest.mark.parametrize("verdict", [Verdict.REJECT, Verdict.DEFER, Verdict.ADMIT])
def test_what_is_said_of_new_jobs_means_nothing_to_one_that_runs(tmp_path: Path, verdict: Verdict) -> None:
    with world(tmp_path) as w:
        job = started(w, samples=100_000)
        judged(w, judging(verdict, job))
        w.pass_time(5.0)
        assert w.state(job) is State.RUNNING


def test_a_deferred_job_waits_although_there_is_room_and_says_why(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        w.plane.decisions.use_policy(judging(Verdict.DEFER, "j1"))
        job = w.submit()
        w.pass_time(5.0)
        assert w.state(job) is State.QUEUED
        assert w.line(job).reason == f"because of {job}"
        judged(w, judging(Verdict.ADMIT, job))
        assert w.state(job) is State.STARTING


def test_a_refused_job_has_ended_and_is_not_there_any_more(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        w.plane.decisions.use_policy(judging(Verdict.REJECT, "j1"))
        job = w.submit()
        w.round()
        assert (w.state(job), w.row(job).reason) == (State.REJECTED, f"because of {job}")
        assert job not in w.plane.live


def test_a_downgraded_job_is_opportunistic_from_then_on_whoever_asks(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        w.plane.decisions.use_policy(judging(Verdict.DOWNGRADE, "j1"))
        job = w.submit(**{"class": "guaranteed"})
        w.round()
        w.crash()
        assert w.plane.seen_by(w.plane.policy, None, "test").view.jobs[job].klass == "opportunistic"
        assert w.row(job).spec["class"] == "guaranteed"  # what its owner said stays as it was


@pytest.mark.parametrize("kind", ["adaptive", "rigid"])
def test_a_job_that_runs_longer_than_estimated_is_ended_at_its_limit(tmp_path: Path, kind: str) -> None:
    """As ``easy(kill_on_overrun=true)`` does in the simulator; the limit is put into its memory here."""
    with world(tmp_path, nodes=1, slots=1, interval_s=1.0) as w:
        job = started(w, kind=kind, samples=100_000)
        easy = _easy_with_limit(w, job, in_s=20.0)
        w.plane.decisions.use_policy(easy, memory={job: w.clock.now_s + 20.0})
        w.pass_time(19.0)
        assert w.state(job) is State.RUNNING
        w.until_state(job, State.REJECTED, most_s=60.0)
        assert "ran longer than its estimate" in w.row(job).reason
        assert w.service.job(job).state == "rejected"
        assert w.state(w.submit()) is State.QUEUED


def _easy_with_limit(w: World, job: str, in_s: float) -> Policy:
    easy = make_policy("easy(kill_on_overrun=true)")
    late = w.plane.seen_by(easy, {job: w.clock.now_s - in_s}, "test").view
    assert late.jobs[job].state is JobState.RUNNING
    assert decide(easy, late).ended.keys() == {job}
    return easy
