"""The fake engine does what an engine promises, and refuses what no cluster could do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from elastane.cluster import Grant, Node
from elastane.engines.contract import (
    Attempt,
    Cause,
    Ending,
    Engine,
    Launch,
    Over,
    Report,
    Running,
    Told,
    Wanted,
)
from elastane.testing.engines.fake_engine import FakeEngine
from elastane.testing.engines.fake_work import Delays, FakeWork
from elastane.train.reports.events import Resized, Stepped


class Bench:
    """An engine of two nodes with two slots each, and a clock."""

    def __init__(self, **delays: float) -> None:
        self.now_s = 0.0
        nodes = [Node("n0", 2, "cpu"), Node("n1", 2, "cpu")]
        self.engine = FakeEngine(nodes, lambda: self.now_s, Delays(**delays))

    def want(self, job: str, *places: tuple[str, int], number: int = 1, seen: int = 0, **how: Any) -> Wanted:
        launch = Launch(
            Attempt(job, number),
            job,
            ("train",),
            "/tmp",
            Path("/tmp/a"),
            Path("/tmp/r"),
            kind=how.pop("kind", "adaptive"),
            environment={f"FAKE_{key.upper()}": str(value) for key, value in how.items()},
        )
        return Wanted(launch, Grant.of(places) if places else None, seen=seen)

    def ensure(self, *args: Any, **how: Any) -> None:
        self.engine.ensure(self.want(*args, **how))

    def after(self, seconds: float) -> list[Report]:
        self.now_s += seconds
        return self.engine.reports()


def only(kind: type, reports: list[Report]) -> list[Any]:
    return [report for report in reports if isinstance(report, kind)]


def causes(reports: list[Report]) -> list[Cause]:
    return [report.cause for report in only(Over, reports)]


def test_it_is_an_engine() -> None:
    engine: Engine = Bench().engine
    assert list(engine.nodes()) == ["n0", "n1"]
    assert asyncio.run(engine.examine("auto", ["x"], "/", {})).kind == "adaptive"


def test_work_takes_as_long_as_its_speed_law_says() -> None:
    bench = Bench(start_s=1.0)
    work = FakeWork(samples=640.0, batch=32.0, sample_s=0.01, sync_s=0.04)
    assert work.rate(1, 1) == pytest.approx(100.0)
    assert work.rate(4, 2) == pytest.approx(32.0 / (0.08 + 0.08))
    bench.ensure("j", ("n0", 1), samples=640, sync_s=0.04)
    over = only(Over, bench.after(100.0))[0]
    assert (over.cause, over.code) == (Cause.FINISHED, 0)
    assert over.at_s == pytest.approx(1.0 + 6.4)


def test_all_workers_are_reported_once_and_windows_tell_progress() -> None:
    bench = Bench(start_s=2.0, window_s=1.0)
    bench.ensure("j", ("n0", 2), ("n1", 1), samples=10_000)
    assert only(Running, bench.after(1.9)) == []
    reports = bench.after(2.1)
    assert [r.workers for r in only(Running, reports)] == [{"n0": 2, "n1": 1}]
    windows = [told.event for told in only(Told, reports) if isinstance(told.event, Stepped)]
    assert [w.at_s for w in windows] == [3.0, 4.0]
    assert windows[-1].fraction == pytest.approx(2 * 300.0 / 10_000)
    assert (windows[-1].workers, windows[-1].nodes) == (3, 2)
    assert windows[-1].compute_s == pytest.approx(0.32 / 3)
    assert [r.number for r in reports] == list(range(1, len(reports) + 1))


def test_an_attempt_is_started_once_however_often_it_is_wanted() -> None:
    bench = Bench()
    for _ in range(3):
        bench.ensure("j", ("n0", 1))
        bench.after(5.0)
    assert bench.engine.starts == {Attempt("j", 1): 1}


def test_a_move_takes_the_old_place_and_the_new_until_it_is_complete() -> None:
    bench = Bench(resize_s=2.0)
    bench.ensure("j", ("n0", 2))
    bench.after(1.0)
    bench.ensure("j", ("n1", 1))
    assert bench.engine.facts()["used"] == {"n0": 2, "n1": 1}
    assert bench.engine.workers_of("j") == {"n0": 2}
    reports = bench.after(2.0)
    assert [r.workers for r in only(Running, reports)] == [{"n1": 1}]
    resized = next(t.event for t in only(Told, reports) if isinstance(t.event, Resized))
    assert (resized.kind, resized.before, resized.after) == ("shrink", 2, 1)
    assert bench.engine.facts()["used"] == {"n0": 0, "n1": 1}


def test_more_workers_than_slots_are_refused() -> None:
    bench = Bench()
    bench.ensure("j", ("n0", 2))
    with pytest.raises(AssertionError, match="3 of 2 slots of n0"):
        bench.ensure("k", ("n0", 1))


def test_another_attempt_before_the_end_of_the_first_is_refused() -> None:
    bench = Bench()
    bench.ensure("j", ("n0", 1))
    with pytest.raises(AssertionError, match="before the one before it ended"):
        bench.ensure("j", ("n1", 1), number=2)


def test_an_attempt_that_is_forgotten_does_not_begin_again() -> None:
    bench = Bench()
    bench.ensure("j", ("n0", 1), samples=1)
    bench.after(10.0)
    bench.engine.forget(Attempt("j", 1))
    with pytest.raises(AssertionError, match="asked for again"):
        bench.ensure("j", ("n0", 1))


@pytest.mark.parametrize(
    ("ending", "cause"), [(Ending.SUSPEND, Cause.SUSPENDED), (Ending.CANCEL, Cause.CANCELLED)]
)
def test_it_leaves_as_it_is_asked_to(ending: Ending, cause: Cause) -> None:
    bench = Bench(leave_s=3.0)
    bench.ensure("j", ("n0", 1))
    bench.after(2.0)
    launch = bench.want("j").launch
    for _ in range(2):
        bench.engine.ensure(Wanted(launch, None, ending))
        assert causes(bench.after(1.0)) == []
    assert causes(bench.after(1.0)) == [cause]
    assert bench.engine.facts()["used"] == {"n0": 0}


def test_what_was_never_started_ends_without_a_start() -> None:
    bench = Bench()
    bench.engine.ensure(bench.want("j"))
    assert causes(bench.after(0.0)) == [Cause.CANCELLED]
    assert not bench.engine.starts


def test_a_suspended_job_goes_on_and_a_command_begins_anew() -> None:
    bench = Bench(start_s=0.0, leave_s=0.0)
    for job, kind, done in (("a", "adaptive", 500.0), ("r", "command", 0.0)):
        bench.ensure(job, ("n0", 1), kind=kind)
        bench.after(5.0)
        bench.engine.ensure(Wanted(bench.want(job, kind=kind).launch, None, Ending.SUSPEND))
        bench.after(0.0)
        bench.ensure(job, ("n0", 1), number=2, kind=kind)
        bench.after(0.0)
        assert bench.engine.done(job) == pytest.approx(done)


def test_a_lost_node_costs_an_adaptive_job_its_workers_there_and_a_command_everything() -> None:
    bench = Bench()
    bench.ensure("a", ("n0", 1), ("n1", 1))
    bench.ensure("r", ("n0", 1), ("n1", 1), kind="command")
    bench.after(2.0)
    bench.engine.lose_node("n1")
    assert list(bench.engine.nodes()) == ["n0"]
    assert list(bench.engine.known_nodes()) == ["n0", "n1"]
    reports = bench.after(1.0)
    assert [(r.attempt.job, r.workers) for r in only(Running, reports)] == [("a", {"n0": 1})]
    assert [(r.attempt.job, r.cause) for r in only(Over, reports)] == [("r", Cause.LOST)]
    bench.engine.bring_back("n1")
    assert [r.workers for r in only(Running, bench.after(1.0))] == [{"n0": 1, "n1": 1}]


def test_a_job_whose_only_node_is_lost_is_lost() -> None:
    bench = Bench()
    bench.ensure("a", ("n1", 2))
    bench.after(2.0)
    bench.engine.lose_node("n1")
    assert causes(bench.after(0.0)) == [Cause.LOST]


def test_a_failure_has_a_cause_and_a_code() -> None:
    bench = Bench()
    bench.ensure("j", ("n0", 1))
    assert bench.engine.fail("j", Cause.FAILED, 3)
    over = only(Over, bench.after(0.0))[0]
    assert (over.cause, over.code, over.detail) == (Cause.FAILED, 3, "exit code 3")
    assert not bench.engine.fail("j")


def test_the_next_control_plane_hears_what_the_last_one_did_not_store() -> None:
    bench = Bench(start_s=1.0, window_s=1.0)
    bench.ensure("j", ("n0", 1), samples=300)
    first = bench.after(10.0)
    assert causes(first) == [Cause.FINISHED]
    stored = first[2].number
    asyncio.run(bench.engine.open())
    assert bench.after(0.0) == []
    bench.ensure("j", ("n0", 1), samples=300, seen=stored)
    assert bench.after(0.0) == first[3:]
    assert bench.engine.starts == {Attempt("j", 1): 1}


def test_numbers_go_on_from_attempt_to_attempt() -> None:
    bench = Bench(start_s=0.0)
    bench.ensure("j", ("n0", 1), number=2, seen=41)
    assert [report.number for report in bench.after(0.0)] == [42, 43]


def test_waiting_ends_when_something_is_due_and_not_before() -> None:
    async def waits() -> list[bool]:
        engine = FakeEngine([Node("n0", 2, "cpu")], delays=Delays(start_s=0.01, window_s=1000.0))
        bench = Bench()
        heard = [await engine.changed(0.02)]
        engine.ensure(bench.want("j", ("n0", 1)))
        heard.append(await engine.changed(30.0))
        assert only(Running, engine.reports())
        heard.append(await engine.changed(0.02))
        engine.lose_node("n0")
        heard.append(await engine.changed(30.0))
        return heard

    assert asyncio.run(waits()) == [False, True, False, True]
