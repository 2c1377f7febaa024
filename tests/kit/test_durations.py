"""A length of time is written in one way wherever it is shown."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.kit.durations import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (-3.0, "0 s"),
        (3.2e-5, "32 µs"),
        (0.00099951, "1 ms"),
        (0.0254, "25 ms"),
        (0.9996, "1 s"),
        (1.24, "1.2 s"),
        (9.96, "10 s"),
        (89.0, "89 s"),
        (180.0, "3 min"),
        (192.0, "3.2 min"),
        (3723.0, "62 min"),
        (7920.0, "2.2 h"),
        (362_880.0, "4.2 d"),
        (1e9, "11,574 d"),
        (math.inf, "?"),
        (math.nan, "?"),
    ],
)
def test_it_reads_as_people_would_say_it(seconds: float, text: str) -> None:
    assert duration(seconds) == text


SECONDS = {"µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@given(st.floats(1e-6, 1e10))
def test_it_is_within_a_twentieth_of_what_it_says(seconds: float) -> None:
    figure, unit = duration(seconds).split()
    assert float(figure.replace(",", "")) * SECONDS[unit] == pytest.approx(seconds, rel=0.051)
