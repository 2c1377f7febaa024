"""Times and numbers in words."""

from __future__ import annotations

import math

import pytest

from elastane.cli.live import terminal, times
from elastane.service.messages import Eta


@pytest.mark.parametrize(
    ("low_s", "high_s", "words"),
    [
        (300, 540, "5–9 min"),
        (300, 300, "5 min"),
        (0, 3, "0–3 s"),
        (59.4, 59.4, "59 s"),
        (90, 150, "1.5–2.5 min"),
        (30, 300, "0.5–5 min"),
        (3600 * 2, 3600 * 5, "2–5 h"),
        (86400 * 2, 86400 * 2.04, "2 d"),
        (-5, 10, "0–10 s"),
        (10, 5, "10 s"),
        (math.nan, 5, "?"),
        (0, math.inf, "?"),
    ],
)
def test_a_range_is_said_in_one_unit(low_s: float, high_s: float, words: str) -> None:
    assert times.span(low_s, high_s) == words


def test_a_moment_that_has_passed_is_said_from_now() -> None:
    assert times.ago(1000, 1120) == "2 min ago"
    assert times.ago(1000, 1000.5) == "just now"
    assert times.ago(2000, 1000) == "just now"


@pytest.mark.parametrize(
    ("low_s", "high_s", "words"),
    [(1300, 1540, "in 5–9 min"), (900, 1540, "within 9 min"), (800, 900, "any moment now")],
)
def test_a_moment_to_come_is_a_range_from_now(low_s: float, high_s: float, words: str) -> None:
    assert times.until(low_s, high_s, 1000) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "–"), (0, "0"), (0.12345, "0.123"), (12.34, "12.3"), (1234.5, "1,234"), (2_500_000, "2.5M")],
)
def test_numbers_have_about_three_digits(value: float | None, words: str) -> None:
    assert times.amount(value) == words


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.62, "██████░░░░ 62 %"),
        (0.0, "░░░░░░░░░░ 0 %"),
        (1.7, "██████████ 170 %"),
        (None, "–"),
        (math.nan, "–"),
    ],
)
def test_a_bar_never_leaves_its_frame(share: float | None, words: str) -> None:
    assert times.bar(share) == words


def test_a_zero_has_no_minus() -> None:
    assert times.amount(-0.0) == "0"
    assert times.span(-0.0, -0.0) == "0 s"
    eta = Eta(low_s=-0.0, mid_s=-0.0, high_s=-0.0)
    assert "-0" not in terminal.document({"eta": eta})
