"""Weeks for a cluster: an exact load, the statistics of their sources, and nothing that does not fit."""

from __future__ import annotations

import numpy as np
import pytest

from elastane.errors import ElastaneError
from elastane.sim.workloads import Trace, parse_workload
from elastane.sim.workloads.fits import fits
from elastane.sim.workloads.weeks import LONGEST_SHARE, SHORTEST_S, WEEKS, week_like

DAY_S = 86400.0


def columns(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    return np.array([job.gpus for job in trace.jobs]), np.array([job.duration_s for job in trace.jobs])


@pytest.mark.parametrize("name", WEEKS)
@pytest.mark.parametrize("load", [0.5, 0.8, 1.1])
def test_the_load_is_exact_for_every_seed(name: str, load: float) -> None:
    for seed in range(3):
        gpus, seconds = columns(week_like(name, seed, gpus=32, days=2.0, load=load))
        assert gpus @ seconds == pytest.approx(load * 32 * 2 * DAY_S, rel=1e-4)


@pytest.mark.parametrize("name", WEEKS)
def test_sizes_and_durations_follow_the_source_where_it_fits(name: str) -> None:
    # A cluster so large that next to no job is too wide, and enough jobs to tell.
    gpus, seconds = columns(week_like(name, 1, gpus=1024, load=1.0))
    fit = fits()[WEEKS[name]]
    assert np.mean(gpus == 1) == pytest.approx(fit.gpu_shares[fit.gpus == 1][0], abs=0.06)
    low, high = fit.duration.cdf(np.array([SHORTEST_S, LONGEST_SHARE * 7 * DAY_S]))
    for quantile in (0.25, 0.5, 0.75):
        within = (fit.duration.cdf(np.quantile(seconds, quantile)) - low) / (high - low)
        assert within == pytest.approx(quantile, abs=0.08)


@pytest.mark.parametrize("name", WEEKS)
def test_nothing_is_wider_or_longer_than_the_cluster_bears(name: str) -> None:
    trace = week_like(name, 0, gpus=16, days=3.5)
    gpus, seconds = columns(trace)
    assert gpus.max() <= 8
    assert seconds.max() <= 1.3 * DAY_S  # a day before durations are scaled to the load
    assert trace.jobs[0].submit_s >= 0.0
    assert trace.jobs[-1].submit_s < 3.5 * DAY_S


def test_as_text_the_week_is_the_same_and_load_multiplies() -> None:
    assert parse_workload("itp:3,gpus=16,days=1", load=0.5).jobs == week_like("itp", 3, 16, 1.0, 0.5).jobs
    assert parse_workload("itp:3").jobs != parse_workload("itp:4").jobs


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("philly:x", "philly needs a whole number"),
        ("helios:1,gpus=1", "gpus=1: a week is made for a cluster"),
        ("itp:1,days=0", "days=0: "),
        ("itp:1,days=0.001", "too short for jobs of this kind"),
        ("itp:1,jobs=3", "unknown key 'jobs'"),
        ("helios", "did you mean helios:N"),
    ],
)
def test_mistakes_are_named(text: str, said: str) -> None:
    with pytest.raises(ElastaneError, match=said):
        parse_workload(text)
