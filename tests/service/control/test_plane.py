"""The control plane over a fake engine: from submission to the end, through changes, faults and restarts."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from elastane.cluster import Node
from elastane.engines.contract import Attempt, Cause, Running
from elastane.jobs import JobSpec
from elastane.jobs.problems import Problem, SpecError
from elastane.jobs.states import State
from elastane.service.control.plane import ControlPlane, ControlSettings
from elastane.service.control.state_after_end import BACKOFF_S
from elastane.service.live_service import LiveService
from elastane.service.protocol import Conflict
from elastane.service.store import Store
from elastane.testing.engines.fake_engine import FakeEngine
from elastane.testing.engines.fake_work import Delays
from service.helpers import ANN, Crash, World, plain, raises, started, world

NO_DELAY = Delays(0.0, 0.0, 0.0)


# From submission to the end.


def test_a_job_is_started_runs_and_succeeds(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = w.submit(samples=1000, workers=1)
        w.round()
        assert w.state(job) is State.STARTING
        w.until_state(job, State.SUCCEEDED)
        assert w.causes(job) == ["admit", "start", "started", "finish"]
        row = w.row(job)
        assert (row.code, row.attempt, row.grant) == (0, 1, None)
        assert row.ended_s == pytest.approx(1001.0 + 10.0)
        assert row.service_gpu_s == pytest.approx(11.0)
        assert job not in w.plane.live
        assert w.engine.facts()["attempts"] == 0  # the engine was told that it may forget


def test_a_job_that_ends_before_anybody_saw_it_run_has_succeeded(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = w.submit(samples=100)
        w.round()
        w.clock.now_s += 100.0
        w.round()
        assert w.state(job) is State.SUCCEEDED


def test_a_gang_starts_together_or_not_at_all(tmp_path: Path) -> None:
    with world(tmp_path, policy="fifo") as w:
        first = started(w, kind="command", workers=2)
        wide = w.submit(kind="command", workers=3)
        w.pass_time(5.0)
        assert (w.workers(wide), w.engine.workers_of(wide)) == (0, {})
        w.until_state(first, State.SUCCEEDED)
        w.until_state(wide, State.RUNNING)
        assert sum(w.engine.workers_of(wide).values()) == 3


def test_a_job_grows_into_what_is_free_and_shrinks_when_others_come(tmp_path: Path) -> None:
    with world(tmp_path, interval_s=5.0, min_run_s=0.0) as w:
        job = started(w, samples=60_000)
        w.until(lambda: w.workers(job) == 4)
        others = [w.submit(samples=60_000) for _ in range(3)]
        w.until(lambda: all(w.state(other) is State.RUNNING for other in others))
        assert w.workers(job) == 1
        assert w.engine.starts[Attempt(job, 1)] == 1
        assert w.row(job).attempt == 1


def test_nobody_is_started_where_somebody_has_not_left_yet(tmp_path: Path) -> None:
    with world(tmp_path, nodes=1, delays=Delays(leave_s=5.0), policy="srtf", min_run_s=0.0) as w:
        long = started(w, samples=100_000, workers=2)
        w.service.suspend(ANN, long)
        other = w.submit(workers=2)
        w.pass_time(4.0)
        assert (w.state(long), w.state(other)) == (State.SUSPENDING, State.QUEUED)
        w.pass_time(2.0)
        assert w.state(long) is State.SUSPENDED
        assert w.state(other) in (State.STARTING, State.RUNNING)


def test_a_place_that_is_given_up_is_given_to_another_only_when_it_is_empty(tmp_path: Path) -> None:
    with world(tmp_path, nodes=1, slots=4, delays=Delays(resize_s=6.0)) as w:
        job = started(w, samples=100_000, workers={"min": 1, "max": 4})
        w.service.scale(ANN, job, 4)
        w.until(lambda: w.engine.workers_of(job) == {"n0": 4})
        w.pass_time(1.0)
        w.service.scale(ANN, job, 1)
        other = w.submit(workers=3)
        w.pass_time(4.0)
        assert w.workers(job) == 1
        assert w.state(other) is State.QUEUED
        assert w.service.why(other).reason == f"its place is being freed by {job}"
        w.until_state(other, State.RUNNING, most_s=5.0)


# Failures.


def test_a_failed_job_is_tried_again_after_a_while_and_no_more_than_it_may(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = started(w, retries=2)
        for failures in (1, 2):
            w.engine.fail(job, Cause.FAILED, 7)
            w.round()
            assert (w.state(job), w.row(job).failures) == (State.QUEUED, failures)
            assert "is tried again in" in w.service.why(job).reason
            wait_s = BACKOFF_S * 2.0 ** (failures - 1)
            w.pass_time(wait_s - 0.5, 0.5)
            assert w.state(job) is State.QUEUED
            w.pass_time(0.5)
            assert w.state(job) is State.STARTING
            w.until_state(job, State.RUNNING)
        w.engine.fail(job, Cause.FAILED, 7)
        w.round()
        assert (w.state(job), w.row(job).code, w.row(job).attempt) == (State.FAILED, 7, 3)
        steps = [(e.body["from"], e.body["to"]) for e in w.service.life(job) if e.body["cause"] == "crash"]
        assert steps == [("running", "retrying")] * 2


def test_the_wait_of_a_job_that_failed_is_not_shortened_by_asking_for_another_size(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = started(w, retries=1)
        w.engine.fail(job)
        w.round()
        w.service.scale(ANN, job, 2)
        w.round()
        assert w.state(job) is State.QUEUED


def test_the_wait_of_a_job_that_failed_outlives_the_control_plane(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = started(w, retries=1)
        w.engine.fail(job)
        w.round()
        failed_s = w.clock.now_s
        w.crash()
        w.round()
        assert w.state(job) is State.QUEUED
        assert w.live(job).retry_s >= failed_s + BACKOFF_S - 1.0
        w.until_state(job, State.RUNNING)
        assert w.clock.now_s >= failed_s + BACKOFF_S - 1.0


def test_a_crash_loop_ends(tmp_path: Path) -> None:
    with world(tmp_path, delays=NO_DELAY) as w:
        job = w.submit(retries=5)

        def crash_at_once() -> bool:
            w.engine.fail(job)
            w.round()
            return w.state(job) is State.FAILED

        w.until(crash_at_once)
        assert w.row(job).attempt == 6


# Nodes.


def test_an_adaptive_job_goes_on_without_a_lost_node_and_gets_it_back(tmp_path: Path) -> None:
    with world(tmp_path, interval_s=5.0) as w:
        job = started(w, samples=100_000)
        w.until(lambda: w.workers(job) == 4 and w.state(job) is State.RUNNING)
        before = w.engine.done(job)
        w.engine.lose_node("n1")
        w.until(lambda: w.engine.workers_of(job) == {"n0": 2})
        w.until_state(job, State.RUNNING, most_s=10.0)
        assert w.workers(job) == 2
        w.engine.bring_back("n1")
        w.until(lambda: w.workers(job) == 4)
        w.pass_time(5.0)
        assert (w.row(job).attempt, w.row(job).restarts, w.row(job).failures) == (1, 0, 0)
        assert w.engine.done(job) > before
        states = [e.body["state"] for e in w.service.events(0) if e.kind == "node" and e.body["node"] == "n1"]
        assert states == ["up", "lost", "up"]


def test_a_command_on_a_lost_node_is_queued_again_free_of_charge(tmp_path: Path) -> None:
    with world(tmp_path, policy="fifo") as w:
        job = started(w, kind="command", workers=2)
        (node,) = w.row(job).grant.nodes  # type: ignore[union-attr]
        w.engine.lose_node(node)
        w.until_state(job, State.RUNNING)
        row = w.row(job)
        assert (row.attempt, row.restarts, row.failures) == (2, 1, 0)
        assert "lose" in w.causes(job)
        assert row.grant is not None
        assert node not in row.grant.nodes


def test_a_job_all_of_whose_nodes_are_lost_is_lost_and_goes_on_elsewhere(tmp_path: Path) -> None:
    with world(tmp_path, nodes=3, slots=1) as w:
        job = started(w, samples=100_000, workers=1)
        (node,) = w.row(job).grant.nodes  # type: ignore[union-attr]
        w.engine.lose_node(node)
        w.until(lambda: w.row(job).attempt == 2)
        w.until_state(job, State.RUNNING)
        assert "lose" in w.causes(job)
        assert not {"suspend", "saved"} & set(w.causes(job))
        assert (w.row(job).restarts, w.row(job).failures) == (1, 0)


def test_a_late_report_does_not_make_places_look_empty(tmp_path: Path) -> None:
    with world(tmp_path, delays=Delays(resize_s=5.0)) as w:
        job = started(w, samples=100_000, workers=1)
        w.service.move(ANN, job, "n1")
        w.round()
        late = Running(w.live(job).attempt, w.row(job).seen, {"n0": 1}, "adaptive", "", w.clock.now_s)
        w.service.move(ANN, job, "n0")
        w.round()
        assert w.live(job).places == {"n0": 1, "n1": 1}
        w.plane.ingest.take([late])
        w.service.move(ANN, job, "n1")
        w.round()
        w.plane.ingest.take([late])
        assert w.live(job).places == {"n0": 1, "n1": 1}


def test_nobody_is_on_a_node_that_was_lost(tmp_path: Path) -> None:
    with world(tmp_path, delays=Delays(resize_s=5.0)) as w:
        job = started(w, samples=100_000, workers={"min": 1, "max": 4})
        w.service.scale(ANN, job, 4)
        w.round()
        assert w.live(job).places == {"n0": 2, "n1": 2}
        w.plane.decisions.use_policy(raises(ValueError("no")))
        w.engine.lose_node("n1")
        w.round()
        assert w.live(job).places == {"n0": 2}


def test_a_grant_that_follows_what_has_happened_is_no_resize(tmp_path: Path) -> None:
    with world(tmp_path, interval_s=5.0) as w:
        job = started(w, samples=100_000)
        w.until(lambda: w.workers(job) == 4 and w.state(job) is State.RUNNING)
        policy = w.plane.policy
        w.plane.decisions.use_policy(raises(ValueError("no")))
        w.engine.lose_node("n1")
        w.pass_time(3.0)
        assert w.engine.workers_of(job) == {"n0": 2}
        w.plane.decisions.use_policy(policy)
        w.until(lambda: w.workers(job) == 2, most_s=10.0)
        assert w.state(job) is State.RUNNING


def test_slots_of_a_node_that_comes_back_are_free(tmp_path: Path) -> None:
    with world(tmp_path, delays=Delays(resize_s=3.0)) as w:
        job = started(w, samples=100_000, workers={"min": 1, "max": 4})
        w.service.scale(ANN, job, 4)
        w.round()
        w.engine.lose_node("n1")
        w.service.scale(ANN, job, 2)
        w.pass_time(10.0)
        w.engine.bring_back("n1")
        other = w.submit(workers=2)
        w.until_state(other, State.RUNNING, most_s=10.0)


def test_a_node_that_is_drained_runs_empty_but_for_commands(tmp_path: Path) -> None:
    with world(tmp_path, interval_s=5.0) as w:
        command = started(w, kind="command", samples=100_000)
        (kept,) = w.row(command).grant.nodes  # type: ignore[union-attr]
        (other,) = {"n0", "n1"} - {kept}
        w.service.move(ANN, moved := started(w, samples=100_000), kept)
        w.service.resume(ANN, moved)
        assert w.service.drain(ANN, kept, True).state == "draining"
        w.until(lambda: set(w.engine.workers_of(moved)) == {other})
        assert w.engine.workers_of(command) == {kept: 1}
        assert w.row(command).attempt == 1
        w.crash()
        assert {info.id: info.state for info in w.service.nodes()} == {kept: "draining", other: "up"}
        w.service.drain(ANN, kept, False)
        w.until(lambda: w.workers(moved) == 3)


# Restarts.


def test_the_next_control_plane_goes_on_where_the_last_one_died(tmp_path: Path) -> None:
    with world(tmp_path, policy="fifo") as w:
        jobs = [w.submit(samples=2000) for _ in range(6)]
        for _ in range(24):
            w.pass_time(3.0)
            before = {job: plain(w.row(job)) for job in jobs}
            w.crash()
            assert {job: plain(w.row(job)) for job in jobs} == before
            assert all(plain(live.row) == before[live.id] for live in w.plane.live.values())
        assert {w.state(job) for job in jobs} == {State.SUCCEEDED}
        assert set(w.engine.starts.values()) == {1}
        assert len(w.engine.starts) == 6


def test_what_was_stored_but_never_told_is_told_by_the_next(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = w.submit()
        w.engine.crash_in = 0
        with pytest.raises(Crash):
            w.round()
        assert not w.engine.starts
        assert w.state(job) is State.STARTING
        w.crash()
        assert w.engine.starts == {Attempt(job, 1): 1}


def test_what_the_last_one_heard_but_did_not_store_is_heard_again(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = w.submit(samples=300)
        w.round()
        w.clock.now_s += 50.0
        assert w.engine.reports()  # heard by one who dies with it
        w.crash()
        w.round()
        assert w.state(job) is State.SUCCEEDED


def test_workers_that_have_not_left_yet_are_known_to_the_next(tmp_path: Path) -> None:
    with world(tmp_path, nodes=1, slots=4, delays=Delays(resize_s=6.0)) as w:
        job = started(w, samples=100_000, workers={"min": 1, "max": 4})
        w.service.scale(ANN, job, 4)
        w.until(lambda: w.engine.workers_of(job) == {"n0": 4})
        w.round()
        w.service.scale(ANN, job, 1)
        w.round()
        assert w.workers(job) == 1
        w.crash()
        other = w.submit(workers=3)
        w.pass_time(3.0)
        assert w.state(other) is State.QUEUED
        w.until_state(other, State.RUNNING, most_s=10.0)


def test_what_was_learned_outlives_the_control_plane(tmp_path: Path) -> None:
    with world(tmp_path, interval_s=5.0) as w:
        job = started(w, samples=100_000, sync_s=0.02)
        for workers in (1, 2):
            w.service.scale(ANN, job, workers)
            w.until(lambda n=workers: n in w.live(job).learned.measured)  # type: ignore[misc]
        w.pass_time(10.0)
        known = w.live(job).learned
        w.crash()
        again = w.live(job).learned
        assert again.measured == known.measured
        ours, theirs = again.speed("cpu"), known.speed("cpu")
        assert ours is not None
        assert theirs is not None
        assert ours.best_of(1, 2, "cpu")[0] == pytest.approx(theirs.best_of(1, 2, "cpu")[0], rel=0.05)


def test_a_shutdown_saves_what_can_be_saved_and_the_next_start_goes_on(tmp_path: Path) -> None:
    with world(tmp_path, delays=NO_DELAY) as w:
        job = started(w, samples=3000, workers=1)
        w.pass_time(10.0)
        assert w.run(w.plane.close(leave_running=False)) == f"{job} was saved and goes on from there"
        assert w.engine.workers_of(job) == {}
        w._open()
        assert w.state(job) is State.SUSPENDED
        w.until_state(job, State.SUCCEEDED)
        assert w.engine.done(job) == pytest.approx(3000.0)
        assert w.row(job).service_gpu_s < 60.0  # it did not begin anew


def test_a_command_is_not_said_to_be_saved_by_a_shutdown(tmp_path: Path) -> None:
    with world(tmp_path, delays=NO_DELAY) as w:
        job = started(w, kind="command", samples=3000)
        other = started(w, samples=3000, workers=1)
        w.pass_time(5.0)
        words = w.run(w.plane.close(leave_running=False))
        saved, command = (
            f"{other} was saved and goes on from there",
            f"{job} is a command: nothing of it was saved",
        )
        assert words == f"{saved}; {command}, it starts over"
        w._open()
        assert w.state(job) is State.QUEUED
        steps = w.service.job(job).life[-2:]
        assert ["a command cannot be saved" in steps[0].detail, steps[1].detail] == [True, "starts over"]
        w.until_state(job, State.SUCCEEDED)


def test_leaving_jobs_alone_leaves_them_alone(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = started(w, samples=1000)
        w.run(w.plane.close(leave_running=True))
        w.clock.now_s += 100.0
        w._open()
        w.round()
        assert w.state(job) is State.SUCCEEDED
        assert w.row(job).attempt == 1


# The loop itself.


def test_the_loop_starts_what_arrives_without_waiting_for_a_round(tmp_path: Path) -> None:
    async def arrive(w: World) -> None:
        plane = ControlPlane(ControlSettings(tmp_path, interval_s=1000.0), w.store, w.engine, w.clock)
        await plane.open()
        w.plane, w.service = plane, LiveService(plane)
        job = await w.submitting()
        async with asyncio.timeout(30.0):
            seen = 0
            while w.state(job) is State.QUEUED:
                await w.service.wait_for_events(seen, 30.0)
                seen = w.store.log.last_event_seq()
        for task in plane._tasks:
            task.cancel()

    with world(tmp_path) as w:
        w.run(arrive(w))


def test_what_is_asked_while_a_policy_thinks_is_not_overruled_by_its_answer(tmp_path: Path) -> None:
    class Slow:
        """Answers when it may."""

        def __init__(self, policy: Any) -> None:
            self.policy, self.asked, self.may_answer = policy, threading.Event(), threading.Event()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.policy, name)

        def decide(self, view: Any) -> Any:
            self.asked.set()
            self.may_answer.wait(30.0)
            return self.policy.decide(view)

    async def meanwhile(w: World, slow: Slow, what: Any) -> None:
        deciding = asyncio.create_task(w.plane.round())
        await asyncio.to_thread(slow.asked.wait, 30.0)
        what()
        slow.may_answer.set()
        await deciding

    with world(tmp_path) as w:
        held, cancelled = w.submit(), w.submit()
        slow = Slow(w.plane.policy)
        w.plane.decisions.use_policy(slow)  # type: ignore[arg-type]

        def change() -> None:
            w.service.suspend(ANN, held)
            w.service.cancel(ANN, cancelled)

        w.run(meanwhile(w, slow, change))
        w.pass_time(3.0)
        assert (w.state(held), w.state(cancelled)) == (State.QUEUED, State.CANCELLED)
        assert not w.engine.starts


def test_a_minimum_run_time_keeps_a_started_job_from_being_suspended(tmp_path: Path) -> None:
    for least_s, state in ((0.0, State.SUSPENDED), (1000.0, State.RUNNING)):
        home = tmp_path / str(least_s)
        with world(home, nodes=1, interval_s=5.0, min_run_s=least_s) as w:
            long = started(w, samples=100_000, workers=2)
            w.pass_time(10.0)
            w.submit(samples=500, workers=2)
            w.pass_time(3.0)
            assert w.state(long) is state


def test_what_the_store_holds_and_nobody_can_read_any_more_is_set_aside_and_told(tmp_path: Path) -> None:
    async def story() -> None:
        store = Store.open(tmp_path / "elastane.db")
        store.claim()
        facts = {"name": "x", "owner": "ann", "tenant": "default", "directory": "/tmp", "kind": "command"}
        with store.transaction() as t:
            good = t.jobs.add_job(**facts, spec={"command": ["true"]}, state=State.QUEUED)
            t.jobs.add_job(**facts, spec={"command": ["true"], "of_another_age": 1}, state=State.QUEUED)
            t.settings.put("policy", "no-such-policy")
        plane = ControlPlane(ControlSettings(tmp_path), store, FakeEngine([Node("n0", 1, "cpu")]))
        await plane.take_up()
        assert list(plane.live) == [good.id]
        assert plane.policy.name == "elastane"
        assert [("of_another_age" in p, "no-such-policy" in p) for p in plane.problems] == [
            (False, True),
            (True, False),
        ]
        await plane.close(leave_running=True)

    asyncio.run(story())


@pytest.mark.parametrize("runs", [False, True])
def test_a_job_that_cannot_be_read_at_a_start_is_shown_and_can_be_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: bool
) -> None:
    def unreadable(_: object) -> JobSpec:
        raise SpecError([Problem("workers", "workers: a rigid job has one size, not workers from 1 to 2")])

    with world(tmp_path) as w:
        job = started(w, samples=100_000) if runs else w.submit()
        with monkeypatch.context() as older:
            older.setattr("elastane.service.control.active_job.parse_spec", unreadable)
            w.crash()
        [line] = w.service.jobs("active")
        assert line.id == job
        assert "cannot be read" in line.reason
        assert "cannot be read" in w.service.why(job).reason
        assert "cannot be read" in w.service.job(job).reason
        assert any(job in problem and "until the next start" in problem for problem in w.plane.problems)
        with pytest.raises(Conflict, match=r"can only be cancelled: .* cannot be read"):
            w.service.suspend(ANN, job)
        w.service.cancel(ANN, job)
        w.until_state(job, State.CANCELLED)
        assert not w.engine.workers_of(job)
        assert not w.service.jobs("active")
