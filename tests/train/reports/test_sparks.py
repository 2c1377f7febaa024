"""The terminal's picture of a run: all lines of one width, the right heights, marks where things happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from elastane.train.errors import TrainError
from elastane.train.reports.events import Event, Started, Stepped
from elastane.train.reports.plot import plot_terminal
from train.reports.strategies import ANY_EVENT


def printed(events: list[Event] | tuple[Event, ...], width: int = 100) -> list[str]:
    console = Console(width=width, force_terminal=False)
    with console.capture() as captured:
        plot_terminal(events, console)
    return captured.get().splitlines()


def bars(lines: list[str], name: str) -> str:
    line = next(line for line in lines if line.startswith(name))
    return "".join(char for char in line if char in "▁▂▃▄▅▆▇█")


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_every_quantity_has_a_line_that_fits(run: tuple[Event, ...], width: int) -> None:
    lines = printed(run, width)
    assert all(len(line) <= width for line in lines)
    names = ("workers", "batch", "per worker", "efficiency", "noise", "loss", "samples/s")
    assert {len(bars(lines, name)) for name in names} == {width - 36}


def test_heights_follow_the_values(run: tuple[Event, ...]) -> None:
    lines = printed(run)
    workers, loss = bars(lines, "workers"), bars(lines, "loss")
    assert (workers[0], max(workers), workers[-1]) == ("▁", "█", "▃")
    assert list(loss) == sorted(loss, reverse=True)
    assert (loss[0], loss[-1]) == ("█", "▁")


def test_marks_stand_where_things_happened(run: tuple[Event, ...]) -> None:
    lines = printed(run)
    marks, workers = lines[0], next(line for line in lines if line.startswith("workers"))
    first = workers.index("▁")
    assert [char for char in marks if char != " "] == ["▲", "▲", "~", "✕", "★", "▼"]
    assert marks.index("▲") - first == 30 * 64 // 240
    assert workers[marks.index("▲") - 1] < workers[marks.index("▲")]


def test_the_picture_says_from_where_to_where(run: tuple[Event, ...]) -> None:
    text = "\n".join(printed(run))
    for said in ("1 – 4", "128 – 2,048", "45% – 100%", "4 min", "digits-7"):
        assert said in text


def test_what_never_changed_is_neither_low_nor_high(window: Callable[..., Stepped]) -> None:
    lines = printed([window(second, workers=3) for second in range(9)])
    assert set(bars(lines, "workers")) == {"▅"}


def test_a_loss_that_explodes_is_drawn_to_scale(window: Callable[..., Stepped]) -> None:
    losses = (-1.7e308, 0.0, 1.7e308)
    lines = printed([replace(window(second), loss=loss) for second, loss in enumerate(losses)], width=60)
    assert set(bars(lines, "loss")) == {"▁", "▅", "█"}


def test_a_short_stretch_with_more_workers_is_seen(window: Callable[..., Stepped]) -> None:
    counts = [8 if 500 <= second < 503 else 1 for second in range(1000)]
    lines = printed([window(second, workers=count) for second, count in enumerate(counts)])
    assert bars(lines, "workers").count("█") == 1


def test_a_run_that_never_took_a_step_is_shown_all_the_same() -> None:
    lines = printed([Started(0.0, "r", "s.py", "fixed", 2, 8, 1)])
    assert any("s.py" in line for line in lines)
    assert not any(line.startswith("loss") for line in lines)


def test_a_run_without_events_is_a_clear_error() -> None:
    with pytest.raises(TrainError, match="no events"):
        printed([])


@given(st.lists(ANY_EVENT, min_size=1, max_size=12))
def test_whatever_was_said_can_be_printed(events: list[Event]) -> None:
    assert printed(events)
