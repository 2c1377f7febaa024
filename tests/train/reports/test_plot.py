"""The drawn run: every panel with its data, bounded, offline, safe with whatever scripts say."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.kit import html_page
from elastane.kit.html_page import script_safe
from elastane.train.errors import TrainError
from elastane.train.reports import figure as figures
from elastane.train.reports.events import (
    Ended,
    Event,
    Resized,
    Started,
    Stepped,
    Straggler,
    Warned,
    WorkerLost,
)
from elastane.train.reports.figure import figure
from elastane.train.reports.history import collect
from elastane.train.reports.plot import plot_html
from elastane.train.reports.series import Series, thinned, thinned_steps
from elastane.train.reports.ticks import doubling_ticks, log_ticks
from train.reports.strategies import ANY_EVENT

EVIL = "</script><b>&\"'{{data}}"


@pytest.fixture(autouse=True)
def _small_chart_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five megabytes of plotly in every page would only slow the tests; one test puts it back."""
    monkeypatch.setattr(html_page, "chart_library", lambda: "/* plotly */")


def page(tmp_path: Path, events: tuple[Event, ...]) -> str:
    plot_html(events, tmp_path / "deep" / "run.html")
    return (tmp_path / "deep" / "run.html").read_text(encoding="utf-8")


def traces(events: tuple[Event, ...]) -> dict[str, dict[str, Any]]:
    return {trace["name"]: trace for trace in figure(collect(events), 2_000)["data"]}


def test_page_needs_no_network_and_holds_the_chart_library_once(
    tmp_path: Path, run: tuple[Event, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    text = page(tmp_path, run)
    assert text.count("* plotly.js v") == 1
    assert not re.search(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"']?(?:https?:)?//", text)
    assert "default-src 'none'" in text
    assert text.count("</script") == 3


def test_no_marker_is_left_unfilled(tmp_path: Path, run: tuple[Event, ...]) -> None:
    assert "{{" not in page(tmp_path, run)


def test_strings_of_scripts_cannot_leave_their_place(tmp_path: Path, window: Callable[..., Stepped]) -> None:
    text = page(
        tmp_path,
        (
            Started(0.0, EVIL, EVIL, EVIL, 1, 8, 1, {EVIL: EVIL}),
            Resized(1.0, 1, "grow", 1, 2, 3, 0.1, {EVIL: 0.1}),
            WorkerLost(2.0, EVIL, EVIL, 3),
            Straggler(2.0, EVIL, 1.0, 2.0),
            Warned(3.0, EVIL),
            replace(window(4), metrics={EVIL: 1.0}),
            Ended(5.0, "failed", EVIL, 4, 5.0),
        ),
    )
    assert text.count("</script") == 3
    assert "<b>" not in text
    data = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert data
    lost = next(trace for trace in json.loads(data[1])["data"] if trace["name"] == "lost worker")
    assert "&lt;b&gt;" in lost["text"][0]  # plotly reads tags in its texts


@given(st.recursive(st.text() | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3)))
def test_embedded_data_reads_back_and_holds_no_markup(value: object) -> None:
    text = script_safe(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text)


def test_every_panel_has_its_curves_on_its_axis(run: tuple[Event, ...]) -> None:
    drawn = figure(collect(run), 2_000)
    axes = {trace["name"]: trace["yaxis"] for trace in drawn["data"]}
    assert axes["workers"] == axes["grow"] == axes["lost worker"] == axes["straggler"] == "y"
    assert axes["total batch"] == axes["per worker"]
    assert axes["samples/s"] == axes["goodput"]
    assert drawn["layout"][drawn["logLoss"]["axis"]]["title"]["text"] == "loss"
    assert axes["loss"] == drawn["logLoss"]["axis"].replace("axis", "")
    assert (
        len({axes[name] for name in ("workers", "total batch", "efficiency", "noise scale", "loss", "goodput")})
        == 6
    )
    for axis in axes.values():
        assert drawn["layout"][axis.replace("y", "yaxis")]["title"]["text"]


def test_panels_share_the_time_and_do_not_overlap(run: tuple[Event, ...]) -> None:
    layout = figure(collect(run), 2_000)["layout"]
    assert [key for key in layout if key.startswith("xaxis")] == ["xaxis"]
    domains = sorted(axis["domain"] for axis in layout.values() if isinstance(axis, dict) and "domain" in axis)
    assert len(domains) == 5
    assert domains[0][0] == 0.0
    assert domains[-1][1] == 1.0
    assert all(below[1] < above[0] for below, above in pairwise(domains))


def test_workers_step_where_the_run_was_resized(run: tuple[Event, ...]) -> None:
    line = traces(run)["workers"]
    assert line["line"]["shape"] == "hv"
    steps = [
        (x, y)
        for i, (x, y) in enumerate(zip(line["x"], line["y"], strict=True))
        if i == 0 or y != line["y"][i - 1]
    ]
    assert steps == [(0, 1), (30, 2), (90, 4), (150, 3), (200, 2)]
    assert line["x"][-1] == 240


def test_marks_stand_on_the_line_and_say_what_happened(run: tuple[Event, ...]) -> None:
    drawn = traces(run)
    assert (drawn["lost worker"]["x"], drawn["lost worker"]["y"]) == ([149.5], [4])
    assert (drawn["recover"]["x"], drawn["recover"]["y"]) == ([150], [3])
    assert "pause 410 ms" in drawn["recover"]["text"][0]
    assert "w2 is slow: 34%" in drawn["straggler"]["text"][0]
    symbols = [trace["marker"]["symbol"] for trace in drawn.values() if "marker" in trace]
    assert len(symbols) == len(set(symbols)) >= 6


def test_curves_hold_what_was_measured(run: tuple[Event, ...]) -> None:
    windows = [event for event in run if isinstance(event, Stepped)]
    drawn = traces(run)
    assert drawn["loss"]["y"] == pytest.approx([window.loss for window in windows], rel=1e-5)
    assert drawn["noise scale"]["y"] == pytest.approx([window.noise for window in windows], rel=1e-5)
    assert drawn["per worker"]["y"] == [window.per_worker for window in windows]


def test_a_loss_that_is_not_finite_is_a_gap_with_a_note(tmp_path: Path, window: Callable[..., Stepped]) -> None:
    events = (window(1), replace(window(2), loss=math.nan, noise=math.inf), window(3))
    assert traces(events)["loss"]["y"][1] is None
    assert "not finite in 1 of 3 windows" in page(tmp_path, events)


def test_the_page_lists_every_pause_with_its_parts(tmp_path: Path, run: tuple[Event, ...]) -> None:
    text = page(tmp_path, run)
    head = re.search(r'class="pauses"><thead>(.*?)</thead>', text)
    assert head
    assert re.findall(r'"col">(.*?)<', head[1]) == [
        "at", "kind", "workers", "step", "pause", "fork", "build", "agree", "switch", "first step",
        "state", "detect", "plan",
    ]  # fmt: skip
    assert "<td>grow (shadow)</td><td>1 → 2</td>" in text
    assert "<td>recover</td><td>4 → 3</td>" in text
    assert text.count("<tr>") == 2 + 4 + 5
    assert "checkpoint step-900 is torn" in text


def test_a_long_run_is_bounded_and_says_so(tmp_path: Path, window: Callable[..., Stepped]) -> None:
    windows = [window(i, step=i) for i in range(20_000)]
    pauses = [Resized(windows[0].at_s + i, 1, "move", 2, 2, i, 0.001 * i) for i in range(400)]
    text = page(tmp_path, (windows[0], *pauses, *windows[1:]))
    assert len(text) < 1_000_000
    assert "averages over 2,000 equal intervals" in text
    assert "300 longest of 400" in text
    assert "<td>399 ms</td>" in text
    assert "<td>50 ms</td>" not in text


def test_events_of_a_newer_version_are_noted(tmp_path: Path) -> None:
    assert "of version 99" in page(tmp_path, (Started(0.0, "r", "s", "fixed", 1, 8, 1, version=99),))


def test_no_events_and_no_place_to_write_are_clear_errors(tmp_path: Path, run: tuple[Event, ...]) -> None:
    with pytest.raises(TrainError, match="no events"):
        plot_html([], tmp_path / "x.html")
    with pytest.raises(TrainError, match=str(tmp_path)):
        plot_html(run, tmp_path)


def test_the_same_run_gives_the_same_page(tmp_path: Path, run: tuple[Event, ...]) -> None:
    assert page(tmp_path, run) == page(tmp_path, run)


@given(st.lists(ANY_EVENT, min_size=1, max_size=12))
def test_whatever_was_said_can_be_drawn(events: list[Event]) -> None:
    json.dumps(figure(collect(events), 8), allow_nan=False)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("ground", ["#ffffff", "#171c24"])
def test_curves_can_be_read_on_light_and_on_dark(ground: str) -> None:
    for colour in (figures.BLUE, figures.ORANGE, figures.GREEN, figures.PURPLE):
        low, high = sorted((luminance(colour), luminance(ground)))
        assert (high + 0.05) / (low + 0.05) >= 3.0, colour


def test_curves_of_one_panel_differ_in_more_than_colour() -> None:
    panels: dict[str, list[str]] = {}
    for curve in figures.CURVES:
        panels.setdefault({"y4": "y3"}.get(curve.axis, curve.axis), []).append(curve.dash)
    assert all(len(dashes) == len(set(dashes)) for dashes in panels.values())


VALUES = st.lists(st.tuples(st.floats(0, 1e6), st.none() | st.floats(-1e6, 1e6)), min_size=1, max_size=60)


@given(VALUES, st.integers(1, 20))
def test_thinning_keeps_within_bounds(points: list[tuple[float, float | None]], limit: int) -> None:
    points.sort(key=lambda point: point[0])
    full = Series(tuple(t for t, _ in points), tuple(v for _, v in points))
    few = thinned(full, limit)
    assert len(few.times_s) == len(few.values) <= max(limit, 1)
    assert list(few.times_s) == sorted(few.times_s)
    slack = 1e-6
    if few.known:
        assert min(full.known) - slack <= min(few.known) <= max(few.known) <= max(full.known) + slack
    assert bool(few.known) == bool(full.known)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=60))
def test_a_line_of_steps_loses_nothing_but_repetition(counts: list[int]) -> None:
    full = Series(tuple(map(float, range(len(counts)))), tuple(map(float, counts)))
    changes = sum(a != b for a, b in pairwise(counts))
    few = thinned_steps(full, changes + 2)

    def at(series: Series, time_s: float) -> float | None:
        return [value for t, value in zip(series.times_s, series.values, strict=True) if t <= time_s][-1]

    assert len(few.values) <= changes + 2
    assert all(at(few, time_s) == at(full, time_s) for time_s in full.times_s)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=5))
def test_batch_ticks_are_few_powers_of_two_within_a_factor_of_the_data(sizes: list[int]) -> None:
    ticks = doubling_ticks(sizes)["tickvals"]
    assert 1 <= len(ticks) <= 6
    assert all(tick & (tick - 1) == 0 for tick in ticks)
    assert min(sizes) / 2 < ticks[0] <= min(sizes)


@given(st.lists(st.floats(1e-9, 1e12), min_size=2, max_size=5))
def test_logarithmic_ticks_are_there_and_few(values: list[float]) -> None:
    low, high = min(values), max(values)
    ticks = [tick for tick in log_ticks(values).get("tickvals", []) if low <= tick <= high]
    assert len(ticks) <= 8
    assert ticks or high < 2 * low


def test_logarithmic_ticks_ignore_what_has_no_logarithm() -> None:
    assert log_ticks([]) == log_ticks([0.0, -1.0]) == {}
