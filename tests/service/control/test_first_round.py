"""Who starts Elastane hears that it is up once a round was made, or in one line why none can be; M6 in a loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from elastane.engines.contract import Cause, Over
from elastane.errors import ElastaneError
from elastane.jobs.states import State
from elastane.service.control import plane as plane_module
from elastane.service.control.first_round import ATTEMPTS
from elastane.service.control.plane import ControlPlane, ControlSettings
from elastane.service.live_service import LiveService
from elastane.service.store import StaleControlPlane, StoreError
from elastane.testing.engines.fake_work import exit_for
from service.helpers import World, started, world

Round = Callable[[], Awaitable[None]]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plane_module, "_AGAIN_S", 0.0)


class Refusing:
    """Makes the first rounds of a plane fail with these errors; ``tried`` counts all of its rounds."""

    def __init__(self, plane: ControlPlane, *errors: BaseException) -> None:
        self.tried, self._errors, self._round = 0, list(errors), plane.round
        plane.round = self.round  # type: ignore[method-assign]

    async def round(self) -> None:
        self.tried += 1
        if self._errors:
            raise self._errors.pop(0)
        await self._round()


def start(w: World, *errors: BaseException) -> int:
    """One start whose first rounds fail; how many rounds there were when it was said to be up."""

    async def starting() -> int:
        plane = ControlPlane(ControlSettings(w.settings.home, interval_s=1000.0), w.store, w.engine, w.clock)
        rounds = Refusing(plane, *errors)
        await plane.open()
        try:
            async with asyncio.timeout(30.0):
                await plane.first_round()
            return rounds.tried
        finally:
            for task in plane._tasks:
                task.cancel()

    tried = w.run(starting())
    assert isinstance(tried, int)
    return tried


FULL = StoreError("no space left on the disk")


def test_a_round_that_failed_is_no_first_round_but_a_later_one_is(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        assert start(w) == 1
        assert start(w, FULL, ValueError("odd"), FULL) == 4


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ([FULL] * ATTEMPTS, "no space left on the disk"),
        ([ValueError("two\nlines")] * ATTEMPTS, "a round failed: ValueError: two lines"),
        ([StaleControlPlane("another control plane owns the store")], "another control plane owns the store"),
        ([SystemError("never\nthought of")] * ATTEMPTS, "SystemError: never thought of"),
        ([BaseException()], "BaseException"),
    ],
)
def test_a_start_that_cannot_make_a_round_says_why_in_one_line(
    tmp_path: Path, errors: list[BaseException], words: str
) -> None:
    with world(tmp_path) as w, pytest.raises(ElastaneError, match=words) as raised:
        start(w, *errors)
    assert "\n" not in str(raised.value)


def test_a_decision_that_failed_is_made_in_the_next_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path, interval_s=1000.0) as w:
        job = w.submit()
        decide, asked = w.plane.decisions.decide, []

        async def once(trigger: str) -> None:
            asked.append(trigger)
            if len(asked) == 1:
                raise FULL
            await decide(trigger)

        monkeypatch.setattr(w.plane.decisions, "decide", once)
        with pytest.raises(StoreError):
            w.round()
        w.round()
        assert asked[0] == asked[1]
        assert w.state(job) is State.STARTING


def test_a_store_that_refuses_once_does_not_end_the_loop_and_what_was_reported_is_stored_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M6, in the running loop; the end of a job is what must be stored."""

    async def run(w: World, job: str) -> list[str]:
        plane = ControlPlane(ControlSettings(tmp_path, interval_s=1000.0), w.store, w.engine, w.clock)
        await plane.open()
        w.plane, w.service = plane, LiveService(plane)
        await plane.first_round()
        problems: list[str] = []
        refused = asyncio.Event()
        complain = plane.decisions.complain

        def complained(problem: str) -> None:
            problems.append(problem)
            complain(problem)
            patch.undo()
            refused.set()

        monkeypatch.setattr(plane.decisions, "complain", complained)
        with pytest.MonkeyPatch.context() as patch:

            def full() -> None:
                raise FULL

            patch.setattr(w.store._db, "commit", full)
            live = plane.live[job]
            w.engine._news.append(
                Over(live.attempt, live.row.seen + 1, exit_for(Cause.FAILED, "by itself", 1), w.clock())
            )
            plane.poke("test")
            async with asyncio.timeout(30.0):
                await refused.wait()
                assert w.state(job) is State.RUNNING
                while w.state(job) is State.RUNNING:
                    await asyncio.sleep(0.01)
        assert not any(task.done() for task in plane._tasks)
        for task in plane._tasks:
            task.cancel()
        return problems

    with world(tmp_path) as w:
        job = started(w, samples=10**6, workers=1)
        problems = w.run(run(w, job))
        assert w.state(job) is State.FAILED
        assert problems == [str(FULL)]
