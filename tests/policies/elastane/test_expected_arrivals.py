"""How many jobs are reckoned with besides those at hand."""

from __future__ import annotations

import pytest

from elastane.policies.elastane.expected_arrivals import RecentPeak

DAY_S = 86_400.0


def test_a_peak_is_remembered_and_fades() -> None:
    busy = RecentPeak().with_jobs(40, 0.0)
    later = busy.with_jobs(3, 3.0 * DAY_S)
    assert later.peak == pytest.approx(20.0)
    assert later.with_jobs(50, 3.0 * DAY_S).peak == 50.0


def test_where_jobs_are_few_for_the_gpus_those_to_come_count_less() -> None:
    peak = RecentPeak(peak=12.0)
    assert peak.jobs(16) == pytest.approx(0.095 * 12.0)
    assert peak.jobs(120) == pytest.approx(0.095 * 12.0 / 2.0)
    assert RecentPeak(peak=1000.0).jobs(64) == 4.0
    assert RecentPeak().jobs(0) == 0.0


def test_it_travels_as_json() -> None:
    kept = RecentPeak().with_jobs(7, 100.0)
    assert RecentPeak.of(kept.memory()) == kept
    assert RecentPeak.of(None) == RecentPeak()
