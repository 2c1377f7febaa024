"""Synthetic traces: the statistics of their sources, exact counts, and reproducibility."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastane.errors import ElastaneError
from elastane.sim.workloads import Trace, synthesise
from elastane.sim.workloads.fits import Durations, fits, size_class

NAMES = tuple(fits())


def column(trace: Trace, name: str) -> np.ndarray:
    return np.array([getattr(job, name) for job in trace.jobs])


@pytest.fixture(scope="module")
def month() -> dict[str, Trace]:
    return {name: synthesise(name, jobs=20_000, days=28, seed=1) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_durations_follow_the_overall_fit(month, name):
    fit, seconds = fits()[name], np.sort(column(month[name], "duration_s"))
    distance = np.abs(fit.duration.cdf(seconds) - np.arange(1, len(seconds) + 1) / len(seconds)).max()
    # The classes were fitted one by one, so their sum meets the overall fit only nearly.
    assert distance < 0.08
    assert seconds[0] >= fit.duration.min_s
    assert seconds[-1] <= fit.duration.max_s


@pytest.mark.parametrize("name", NAMES)
def test_durations_of_a_class_follow_the_fit_of_the_class(month, name):
    fit, gpus, seconds = fits()[name], column(month[name], "gpus"), column(month[name], "duration_s")
    for size in np.unique(size_class(gpus)):
        own = np.sort(seconds[size_class(gpus) == size])
        distance = np.abs(fit.durations_for(int(size)).cdf(own) - np.arange(1, len(own) + 1) / len(own)).max()
        assert distance < 2.0 / np.sqrt(len(own))  # Kolmogorov: one in 1,500 exceeds this by chance


@pytest.mark.parametrize("name", NAMES)
def test_sizes_follow_the_fit(month, name):
    fit, gpus = fits()[name], column(month[name], "gpus")
    assert np.mean(gpus == 1) == pytest.approx(fit.gpu_shares[fit.gpus == 1][0], abs=0.02)
    assert set(gpus) <= set(fit.gpus)


def test_published_mean_run_times_and_gpu_hours_are_met():
    """Philly: 18,006 s and 16.96 GPU hours a job; Venus: 13,041 s (published summaries)."""
    philly = synthesise("philly", jobs=100_000, days=130, seed=3)
    seconds, gpus = column(philly, "duration_s"), column(philly, "gpus")
    assert seconds.mean() == pytest.approx(18_006, rel=0.08)
    assert (seconds * gpus).mean() / 3600 == pytest.approx(16.96, rel=0.12)
    assert column(synthesise("venus", 100_000, 130, 3), "duration_s").mean() == pytest.approx(13_041, rel=0.08)


@pytest.mark.parametrize(("name", "least"), [("philly", 40), ("itp", 15), ("venus", 15), ("pai", 3)])
def test_arrivals_are_far_from_poisson(month, name, least):
    times = column(month[name], "submit_s")
    counts = np.bincount((times // 3600).astype(int), minlength=28 * 24)
    assert counts.var() / counts.mean() > least
    gaps = np.diff(times)
    assert np.mean(gaps <= 10) > 0.35
    assert 2.0 < len(times) / (1 + np.sum(gaps > 30)) < 5.0  # jobs per burst


def test_arrivals_follow_the_hours_of_the_day():
    times = column(synthesise("venus", jobs=50_000, days=180, seed=5), "submit_s")
    by_hour = np.bincount((times // 3600 % 24).astype(int), minlength=24) / len(times) * 24
    assert np.corrcoef(by_hour, fits()["venus"].arrivals.hour)[0, 1] > 0.95


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    jobs=st.integers(1, 300),
    days=st.floats(0.01, 20),
    seed=st.integers(0, 2**40),
)
def test_exactly_the_jobs_asked_for_in_order_within_the_period(name, jobs, days, seed):
    trace = synthesise(name, jobs, days, seed)
    times = column(trace, "submit_s")
    assert len(trace.jobs) == jobs == len({job.id for job in trace.jobs})
    assert (np.diff(times) >= 0).all()
    assert times[0] >= 0
    assert times[-1] <= days * 86400 + 1e-3
    assert (column(trace, "duration_s") > 0).all()


def test_same_seed_same_trace_other_seed_other_trace():
    assert synthesise("itp", 500, 3, seed=4) == synthesise("itp", 500, 3, seed=4)
    assert synthesise("itp", 500, 3, seed=4).jobs != synthesise("itp", 500, 3, seed=5).jobs


def test_streams_do_not_disturb_each_other():
    week, month = synthesise("itp", 500, 7, seed=4), synthesise("itp", 500, 28, seed=4)
    assert column(week, "submit_s").tolist() != column(month, "submit_s").tolist()
    for name in ("gpus", "duration_s"):
        assert column(week, name).tolist() == column(month, name).tolist()


def test_load_multiplies_the_jobs_of_the_same_period():
    assert len(synthesise("saturn", 400, 2, seed=0, load=1.5).jobs) == 600
    assert len(synthesise("saturn", 400, 2, seed=0, load=0.1).jobs) == 40


def test_what_is_not_given_follows_from_the_traces_own_rate():
    per_day = fits()["philly"].arrivals.mean_per_hour * 24
    assert len(synthesise("philly", days=2).jobs) == round(2 * per_day)
    assert max(j.submit_s for j in synthesise("philly", jobs=3000).jobs) <= 3000 / per_day * 86400 + 60


def test_notes_say_what_was_not_measured():
    assert any("burst sizes of ITP" in note for note in synthesise("seren", 10, 1).notes)


@pytest.mark.parametrize(
    "arguments", [{"jobs": 0}, {"days": 0}, {"days": float("nan")}, {"load": 0}, {"seed": -1}]
)
def test_nonsense_is_refused(arguments):
    with pytest.raises(ElastaneError):
        synthesise("philly", **{"jobs": 5, "days": 1, **arguments})


def test_unknown_trace_suggests_the_nearest():
    with pytest.raises(ElastaneError, match="did you mean 'philly'"):
        synthesise("phily", 5, 1)


def test_sample_and_cdf_are_inverse_for_one_component():
    durations = Durations((1.0,), (7.0,), (1.5,), 60.0, 50_000.0)
    where = np.linspace(0.01, 0.99, 9)
    assert durations.cdf(durations.sample(np.zeros(9), where)) == pytest.approx(where)


@pytest.mark.parametrize("name", NAMES)
def test_shipped_figures_are_consistent(name):
    fit = fits()[name]
    assert np.mean(fit.arrivals.hour) == pytest.approx(1.0, abs=0.02)
    assert np.mean(fit.arrivals.weekday) == pytest.approx(1.0, abs=0.02)
    assert fit.arrivals.burst_shares.sum() == pytest.approx(1.0)
    assert len(fit.by_size) == 6
    for part in (fit.duration, *filter(None, fit.by_size)):
        assert sum(part.weights) == pytest.approx(1.0, abs=1e-3)
