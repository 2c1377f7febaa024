"""Whatever one job reports, the control plane goes on, and so do the others."""

from __future__ import annotations

import asyncio
import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastane.engines.contract import Cause, Over, Report, Running, Told
from elastane.jobs.states import State
from elastane.models.goodput import BatchLimits
from elastane.models.throughput import ThroughputParams
from elastane.service.store import StoreError
from elastane.testing.engines.fake_work import exit_for
from elastane.train.reports.events import _TYPES, Evaluated, Event, Fitted
from service.helpers import World, started, window, world

EVENTS = [kind for kind in _TYPES.values() if kind is not Fitted]
number = st.integers(-(2**80), 2**80) | st.sampled_from([0, 1, -1])
real = st.floats() | st.sampled_from([0.0, -1.0, 1e308])
words = st.text(st.characters(codec=None), max_size=20) | st.sampled_from(["\udce9", "start", "grow"])


def made_up(kind: type[Event]) -> st.SearchStrategy[Event]:
    """An event with anything in its fields that its types allow, and more."""
    drawn: dict[str, st.SearchStrategy[Any]] = {}
    for name, field in kind.__dataclass_fields__.items():
        hint = str(field.type)
        drawn[name] = (
            st.dictionaries(words, real, max_size=3)
            if "Mapping" in hint
            else st.lists(words, max_size=3).map(tuple)
            if "tuple" in hint
            else number
            if "int" in hint
            else real
            if "float" in hint
            else st.booleans()
            if "bool" in hint
            else words
        )
    return st.fixed_dictionaries(drawn).map(lambda values: kind(**values))


size = st.integers(1, 2**80) | st.integers(1, 4096)


@st.composite
def fits(draw: st.DrawFn) -> Event:
    """What a job says of its own speed: limits that are in order, and no other sense."""
    total, each = sorted([draw(size), draw(size)]), sorted([draw(size), draw(size)])
    fixed = draw(st.none() | size)
    limits = BatchLimits(total[0], total[1], each[0], each[1], fixed, draw(st.booleans()))
    params = ThroughputParams(*(draw(real) for _ in ThroughputParams._fields))
    return Fitted(draw(real), params, draw(st.none() | real), limits, draw(number), draw(words))


anything = st.sampled_from(EVENTS).flatmap(made_up) | fits()


def say(w: World, *reports: Report) -> None:
    w.engine._news.extend(reports)


def next_number(w: World, job: str) -> int:
    return w.live(job).row.seen + 1


@settings(max_examples=60, deadline=None)
@given(
    events=st.lists(anything, min_size=1, max_size=4), ends=st.booleans(), detail=words, code=number, at_s=real
)
def test_arbitrary_reports_cost_only_the_job_that_made_them(
    events: list[Event], ends: bool, detail: str, code: int, at_s: float
) -> None:
    with tempfile.TemporaryDirectory() as home, world(Path(home)) as w:
        other = started(w, samples=300, workers=1)
        bad = started(w, samples=10**6, workers=1)
        attempt = w.live(bad).attempt
        first = next_number(w, bad)
        for place, event in enumerate(events):
            say(w, Told(attempt, first + place, event))
        say(w, Running(attempt, first + len(events), {"n0": 1}, "", detail, at_s))
        w.pass_time(3.0)
        if ends and bad in w.plane.live:
            say(w, Over(attempt, first + len(events) + 1, exit_for(Cause.FAILED, detail, code), at_s))
        w.pass_time(3.0)
        w.crash()  # the next control plane reads what is left of it
        w.until_state(other, State.SUCCEEDED)


def test_while_thousands_of_reports_are_heard_others_have_their_turn(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = started(w, samples=10**6, workers=1)
        attempt, first = w.live(job).attempt, next_number(w, job)
        say(w, *(Told(attempt, first + i, window(1.0, 0.1)) for i in range(5000)))
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async def both() -> None:
            asking = asyncio.create_task(others())
            await w.plane.ingest.take_in_turns()
            asking.cancel()

        w.run(both())
        assert turns >= 5000 // 100 - 1
        assert w.live(job).row.seen == first + 4999


def test_what_was_not_heard_when_the_store_failed_is_heard_again(tmp_path: Path, monkeypatch: Any) -> None:
    with world(tmp_path) as w:
        job = started(w, samples=10**6, workers=1)
        attempt, first = w.live(job).attempt, next_number(w, job)
        say(w, *(Told(attempt, first + i, window(1.0, 0.1)) for i in range(150)))
        say(w, Over(attempt, first + 150, exit_for(Cause.FINISHED, "", 0), w.clock.now_s))
        real = w.plane.ingest._store_changes

        def full(_: object) -> None:
            raise StoreError("no space left on the disk")

        monkeypatch.setattr(w.plane.ingest, "_store_changes", full)
        with pytest.raises(StoreError):
            w.round()
        monkeypatch.setattr(w.plane.ingest, "_store_changes", real)
        w.until_state(job, State.SUCCEEDED)


def test_a_job_that_says_what_is_known_asks_for_no_decision(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = started(w, samples=10**6, workers=1)
        w.pass_time(2.0)
        attempt, places = w.live(job).attempt, dict(w.live(job).places)
        w.round()
        w.plane.wakeup.take_trigger()
        w.plane.ingest.take([Running(attempt, next_number(w, job), places, "adaptive", "", w.clock.now_s)])
        assert w.plane.wakeup.trigger == ""


def test_a_job_whose_reports_cannot_be_heard_has_failed_and_the_rest_goes_on(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        other, bad = started(w, samples=500), started(w, samples=10**6, workers=1)
        learned = w.live(bad).learned

        def broken(event: Event, share: float = 1.0, accelerator: str | None = "") -> bool:
            raise RuntimeError("never thought of")

        learned.hear = broken  # type: ignore[method-assign]
        say(w, Told(w.live(bad).attempt, next_number(w, bad), window(1.0, 0.1)))
        w.until_state(bad, State.FAILED)
        assert w.row(bad).reason == "its reports cannot be read (never thought of)"
        w.until_state(other, State.SUCCEEDED)


def test_a_job_of_which_no_view_can_be_made_has_failed(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        bad, other = started(w, samples=10**6, workers=1), started(w, samples=500)
        w.live(bad).learned._limits = None
        w.live(bad).learned._batch0 = -3  # as one line of a job's report once did
        w.plane.poke("test")
        w.until_state(bad, State.FAILED)
        w.until_state(other, State.SUCCEEDED)


def test_last_words_that_cannot_be_stored_end_only_their_job(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        other, bad = started(w, samples=500), started(w, samples=10**6, workers=1)
        over = Over(
            w.live(bad).attempt,
            next_number(w, bad),
            exit_for(Cause.FAILED, "cannot read caf\udce9", 2**70),
            math.nan,
        )
        say(w, over)
        w.until_state(bad, State.FAILED)
        assert "cannot be read" in w.row(bad).reason
        w.until_state(other, State.SUCCEEDED)


def test_names_of_metrics_do_not_fill_the_store(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = started(w, samples=10**6)
        say(w, Told(w.live(job).attempt, next_number(w, job), window(1.0, 0.1)))
        for place in range(300):
            say(
                w,
                Told(
                    w.live(job).attempt,
                    next_number(w, job) + 1 + place,
                    Evaluated(1.0, 0, 1, {f"m{place}": 1.0}),
                ),
            )
        w.round()
        training = w.live(job).learned.training
        assert training is not None
        assert len(training.metrics) <= 100


def test_what_could_not_be_stored_is_stored_once_the_disk_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path) as w:
        job = started(w, samples=10**6, workers=1)
        say(
            w, Over(w.live(job).attempt, next_number(w, job), exit_for(Cause.FAILED, "by itself", 1), w.clock())
        )

        def full() -> None:
            raise StoreError("no space left on the disk")

        with monkeypatch.context() as patch:
            patch.setattr(w.store._db, "commit", full)
            with pytest.raises(StoreError):
                w.round()
            assert w.live(job).row.state is State.RUNNING
        w.round()
        assert w.state(job) is State.FAILED
