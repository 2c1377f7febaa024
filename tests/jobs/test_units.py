from __future__ import annotations

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.errors import ElastaneError
from elastane.jobs.units import BANDWIDTH, DURATION, SIZE, Quantity


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (90, 90.0),
        (1.5, 1.5),
        ("90", 90.0),
        ("90s", 90.0),
        ("2h", 7200.0),
        ("1.5d", 129600.0),
        ("1h30m", 5400.0),
        (" 2 Hours ", 7200.0),
        ("250ms", 0.25),
        ("1e3s", 1000.0),
        (".5m", 30.0),
    ],
)
def test_durations_are_read_in_seconds(written: object, seconds: float) -> None:
    assert DURATION.read(written) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("written", "gigabytes"),
    [(16, 16.0), ("16GB", 16.0), ("512 MB", 0.512), ("1.5tb", 1500.0), ("1GiB", 2**30 / 1e9), ("8G", 8.0)],
)
def test_sizes_are_read_in_gigabytes_and_binary_prefixes_differ(written: object, gigabytes: float) -> None:
    assert SIZE.read(written) == pytest.approx(gigabytes)


@pytest.mark.parametrize(("written", "gbps"), [(10, 10.0), ("500Mbps", 0.5), ("10 Gbit/s", 10.0)])
def test_bandwidths_are_read_in_gigabits_per_second(written: object, gbps: float) -> None:
    assert BANDWIDTH.read(written) == pytest.approx(gbps)


BAD = [
    "",
    "h",
    "2x",
    "-1",
    "-2h",
    "2h 30",
    "1:30",
    "two hours",
    "1..5h",
    "nan",
    "inf",
    "1e999s",
    "٣h",
    True,
    None,
]


@pytest.mark.parametrize("written", [*BAD, [], {}, -1, math.inf, math.nan, 10**400, "9" * 5000])
@pytest.mark.parametrize("quantity", [DURATION, SIZE, BANDWIDTH], ids=["duration", "size", "bandwidth"])
def test_anything_else_is_refused_with_what_is_expected(quantity: Quantity, written: object) -> None:
    with pytest.raises(ElastaneError, match="expected"):
        quantity.read(written)


def test_only_durations_have_several_parts() -> None:
    with pytest.raises(ElastaneError):
        SIZE.read("1GB500MB")


@given(st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none()))
def test_reading_never_crashes_and_never_gives_a_negative_or_infinite_amount(written: object) -> None:
    for quantity in (DURATION, SIZE, BANDWIDTH):
        with suppress(ElastaneError):
            assert 0 <= quantity.read(written) < math.inf


@given(st.floats(0, 1e6), st.sampled_from(["s", "m", "h", "d"]))
def test_a_number_with_a_unit_is_the_number_times_the_unit(number: float, unit: str) -> None:
    assert DURATION.read(f"{number!r}{unit}") == pytest.approx(number * DURATION.units[unit])
