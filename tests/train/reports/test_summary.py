"""The figures of a run, checked against runs whose figures are known."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from elastane.train.errors import TrainError
from elastane.train.reports.events import (
    Ended,
    Evaluated,
    Event,
    Resized,
    Saved,
    Started,
    Stepped,
    Warned,
    WorkerLost,
)
from elastane.train.reports.summary import Summary, pauses_by_kind, summarise
from train.reports.strategies import ANY_EVENT

START = Started(0.0, "digits", "digits.py", "fixed", 2, 64, 1)


def steps(at_s: float, step: int, count: int, workers: int = 2, **more: object) -> Stepped:
    return Stepped(at_s, step=step, epoch=1, workers=workers, batch=64, steps=count, step_s=0.1, **more)  # type: ignore[arg-type]


def resize(at_s: float, after: int, pause_s: float = 0.1, redone: int = 0, kind: str = "grow") -> Resized:
    return Resized(at_s, 1, kind, 1, after, 0, pause_s, redone_steps=redone)  # type: ignore[arg-type]


def test_a_quiet_run_is_summed_up_exactly() -> None:
    end = Ended(21.0, "finished", "", 200, 20.0)
    found = summarise([START, steps(10.0, 100, 100, loss=2.0), steps(20.0, 200, 100, loss=1.5), end])
    assert (found.run, found.script, found.mode, found.outcome) == ("digits", "digits.py", "fixed", "finished")
    assert (found.steps, found.wall_s, found.samples) == (200, 20.0, 200 * 64)
    assert found.samples_per_s == pytest.approx(640.0)
    assert found.workers == ((0.0, 2),)
    assert (found.redone_steps, found.lost, found.pauses, found.sessions) == (0, (), {}, 1)
    assert found.final_loss == 1.5


def test_a_run_that_has_not_ended_counts_to_its_last_event() -> None:
    found = summarise([START, steps(10.0, 100, 100)])
    assert (found.outcome, found.steps, found.wall_s) == ("running", 100, 10.0)


def test_a_notice_before_the_start_is_no_session_of_its_own() -> None:
    slow = Warned(0.0, "w1 is still warming up")
    start = replace(START, at_s=3.0)
    found = summarise([slow, start, steps(13.0, 100, 100), Ended(13.0, "finished", "", 100, 10.0)])
    assert [workers for _, workers in found.workers] == [2]
    assert (found.sessions, found.wall_s) == (1, 10.0)


def test_time_between_sessions_is_not_training_time_and_has_no_workers() -> None:
    second = Started(100.0, "digits", "digits.py", "fixed", 4, 64, 1)
    found = summarise(
        [START, steps(10.0, 100, 100), Ended(10.0, "stopped", "", 100, 10.0), second, steps(110.0, 200, 100, 4)]
    )
    assert found.wall_s == 20.0
    assert found.sessions == 2
    assert found.workers == ((0.0, 2), (10.0, 0), (100.0, 4))
    assert found.mean_workers == pytest.approx(3.0)


def test_the_mean_of_workers_is_never_below_the_least_of_them() -> None:
    # Its processes were started 18 s before training began, which is part of how long the session took.
    events = [START, steps(1.0, 10, 10), resize(2.0, 1, kind="shrink"), steps(3.0, 20, 10, 1)]
    found = summarise([*events, Ended(4.0, "finished", "", 20, 22.0)])
    assert found.wall_s == 22.0
    assert found.mean_workers == pytest.approx((2 * 2 + 2 * 1) / 4)


def test_workers_over_time_hold_only_changes() -> None:
    events = [START, steps(1.0, 1, 1), steps(2.0, 2, 1), resize(3.0, 4), steps(4.0, 3, 1, 4), resize(5.0, 1)]
    found = summarise([*events, steps(6.0, 4, 1, 1)])
    assert found.workers == ((0.0, 2), (3.0, 4), (5.0, 1))
    assert found.mean_workers == pytest.approx((3 * 2 + 2 * 4 + 1) / 6)


def test_steps_under_way_and_steps_lost_by_going_back_are_both_work_redone() -> None:
    recover = resize(2.0, 1, redone=1, kind="recover")
    assert summarise([START, steps(1.0, 100, 100), recover, steps(3.0, 150, 50)]).redone_steps == 1
    back = [START, steps(1.0, 100, 100), START, steps(3.0, 90, 10)]
    assert summarise(back).redone_steps == 20
    assert summarise([*back, steps(4.0, 100, 10), steps(5.0, 110, 10)]).redone_steps == 20
    # The first window after a restore may already have passed where the run had been.
    assert summarise([START, steps(1.0, 100, 100), START, steps(3.0, 120, 40)]).redone_steps == 20


def test_pauses_are_counted_by_kind() -> None:
    events = [resize(1.0, 2, s) for s in (0.1, 0.2, 0.6)] + [resize(2.0, 1, 0.05, kind="shrink")]
    found = pauses_by_kind(events)
    assert list(found) == ["grow", "shrink"]
    assert (found["grow"].count, found["grow"].median_s, found["grow"].max_s) == (3, 0.2, 0.6)
    assert found["grow"].total_s == pytest.approx(0.9)
    assert found["grow"].p95_s == pytest.approx(0.56)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=50))
def test_pause_statistics_are_in_order(times: list[float]) -> None:
    each = pauses_by_kind([resize(1.0, 2, time_s) for time_s in times])["grow"]
    assert min(times) <= each.median_s <= each.p95_s * (1 + 1e-12) <= each.max_s * (1 + 1e-9)
    assert each.total_s >= each.max_s


def test_losses_of_workers_checkpoints_and_last_metrics_are_kept() -> None:
    found = summarise(
        [
            START,
            WorkerLost(1.0, "w3", "killed by signal 9", 7),
            Saved(2.0, 8, 100, 0.25, 1.0),
            Saved(3.0, 9, 100, 0.5, 1.0),
            Evaluated(4.0, 1, 10, {"accuracy": 0.9}),
            steps(5.0, 11, 1, loss=1.0, metrics={"accuracy": 0.1, "speed": 3.0}),
            steps(6.0, 12, 1),
        ]
    )
    assert [(each.worker, each.cause, each.step) for each in found.lost] == [("w3", "killed by signal 9", 7)]
    assert (found.checkpoints, found.checkpoint_blocking_s) == (2, 0.75)
    assert found.final_metrics == {"accuracy": 0.9, "speed": 3.0}
    assert found.final_loss == 1.0


def test_a_run_without_events_cannot_be_summed_up() -> None:
    with pytest.raises(TrainError, match="no events"):
        summarise([])


def test_the_summary_is_json_and_a_table_that_names_its_figures(run: tuple[Event, ...]) -> None:
    summary = summarise(run)
    assert json.loads(json.dumps(summary.to_json(), allow_nan=False))["pauses"]["grow"]["count"] == 2
    text = printed(summary)
    for said in (
        "digits-7",
        "finished",
        "1 → 2 → 4 → 3 → 2",
        "w3 at step",
        "accuracy 0.9667",
        "recover",
        "410 ms",
    ):
        assert said in text


def printed(summary: Summary, width: int = 100) -> str:
    console = Console(width=width, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as captured:
        console.print(summary.table())
    return captured.get()


@given(st.lists(ANY_EVENT, min_size=1, max_size=12))
def test_whatever_was_said_can_be_summed_up(events: list[Event]) -> None:
    summary = summarise(events)
    json.dumps(summary.to_json(), allow_nan=False)
    assert printed(summary)


def test_many_resizes_do_not_fill_the_table(window: Callable[..., Stepped]) -> None:
    events = [window(i, step=i, workers=1 + i % 2) for i in range(200)]
    assert "…" in summarise(events).facts()["workers"]
