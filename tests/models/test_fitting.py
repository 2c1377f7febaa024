"""Fitting θ: recovery of a known model, the table of priors row by row, batching, warm starts, odd input."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elastane.models.fitting import Fit, Observations, fit_throughput
from elastane.models.speed import FloatArray
from elastane.models.throughput import TINY_S, ThroughputParams, gradient_time_s, step_time_s

TRUTH = ThroughputParams(0.0174, 0.0007, 0.122, 0.0026, 0.0329, 0.0009, 2.07)
SLOW = ThroughputParams(0.0641, 0.0045, 0.2996, 0.0066, 0.0772, 0.0001, 2.47)
PLACES = [(1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (2, 8), (4, 16)]
BATCHES = [32, 64, 128, 256, 512]

Configuration = tuple[int, int, int]


def arrays(theta: ThroughputParams[float]) -> ThroughputParams[FloatArray]:
    return ThroughputParams(*(np.array(x) for x in theta))


def observed(
    configurations: list[Configuration], truth: ThroughputParams[float] = TRUTH, noise: float = 0.0
) -> Observations:
    """What a job with that θ would measure."""
    nodes, workers, per_gpu = np.array(configurations, dtype=np.float64).T
    theta = arrays(truth)
    gradient_s, step_s = (
        gradient_time_s(theta, per_gpu),
        step_time_s(theta, nodes, workers, per_gpu, np.array(0.0)),
    )
    error = np.exp(np.random.default_rng(1).normal(0.0, noise, (2, len(nodes))))
    gradient_s = gradient_s * error[0]
    return Observations(nodes, workers, per_gpu, gradient_s, np.maximum(step_s * error[1], gradient_s))


def everywhere() -> list[Configuration]:
    return [(n, k, m) for (n, k), m in product(PLACES, BATCHES)]


def misfit(fit: Fit, truth: ThroughputParams[float], configurations: list[Configuration]) -> float:
    """Largest relative error of predicted step times."""
    nodes, workers, per_gpu = np.array(configurations, dtype=np.float64).T
    times = [
        step_time_s(arrays(theta), nodes, workers, per_gpu, np.array(0.0)) for theta in (fit.params, truth)
    ]
    return float(np.max(np.abs(times[0] / times[1] - 1.0)))


def fit_one(configurations: list[Configuration], **kwargs: float) -> Fit:
    return fit_throughput([observed(configurations, **kwargs)])[0]  # type: ignore[arg-type]


# ---- recovery --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("truth", [TRUTH, SLOW])
def test_data_of_its_own_making_are_explained(truth: ThroughputParams[float]) -> None:
    fit = fit_throughput([observed(everywhere(), truth)])[0]
    assert fit.count == len(everywhere())
    assert fit.relative_error < 0.02
    assert misfit(fit, truth, everywhere()) < 0.06
    assert fit.params.alpha_c + 100 * fit.params.beta_c == pytest.approx(
        truth.alpha_c + 100 * truth.beta_c, rel=0.03
    )


def test_it_extrapolates_to_allocations_never_seen() -> None:
    fit = fit_throughput([observed(everywhere())])[0]
    assert misfit(fit, TRUTH, [(1, 3, 200), (3, 12, 100), (8, 32, 256)]) < 0.08


def test_measurement_noise_is_averaged_out() -> None:
    fit = fit_throughput([observed(everywhere(), noise=0.05)])[0]
    assert misfit(fit, TRUTH, everywhere()) < 0.12
    assert 0.02 < fit.relative_error < 0.1


@settings(max_examples=25, deadline=None)
@example(0.5, 0.0078125, 1.0, 0.0625, 1.0)  # the first steps are too long: they must be shortened, not given up
@example(0.0625, 0.0001, 0.375, 0.0625, 1.0)
@given(
    st.floats(1e-3, 0.5),
    st.floats(1e-4, 1e-2),
    st.floats(1e-2, 1.0),
    st.floats(1e-3, 1e-1),
    st.floats(1.0, 4.0),
)
def test_any_plausible_job_is_recovered(
    alpha_c: float, beta_c: float, alpha_n: float, alpha_r: float, gamma: float
) -> None:
    truth = ThroughputParams(alpha_c, beta_c, alpha_n, alpha_n / 40, alpha_r, alpha_r / 40, gamma)
    fit = fit_throughput([observed(everywhere(), truth)])[0]
    assert fit.relative_error < 0.05


# ---- what cannot be known is believed to be good ---------------------------------------------------------


def test_one_batch_size_splits_the_pass_in_halves() -> None:
    data = observed([(1, 1, 128), (1, 2, 128), (2, 4, 128)])
    fit = fit_throughput([data])[0]
    assert fit.params.alpha_c == pytest.approx(float(data.gradient_s.mean()) / 2.0)


def test_several_batch_sizes_leave_the_pass_to_the_data() -> None:
    fit = fit_one([(1, 1, 32), (1, 1, 128), (1, 1, 512)])
    assert fit.params.alpha_c == pytest.approx(TRUTH.alpha_c, rel=0.05)
    assert fit.params.beta_c == pytest.approx(TRUTH.beta_c, rel=0.05)


def test_a_single_worker_is_believed_to_scale_freely() -> None:
    theta = fit_one([(1, 1, 64), (1, 1, 128)]).params
    assert (theta.alpha_r, theta.beta_r) == pytest.approx((TINY_S, TINY_S))
    assert (theta.alpha_n, theta.beta_n) == pytest.approx((1.1 * TINY_S, 1.1 * TINY_S))


def test_several_nodes_never_seen_are_a_tenth_slower_than_one() -> None:
    theta = fit_one([(1, k, m) for k in (1, 2, 4) for m in (64, 128)]).params
    assert theta.alpha_r > 1e-3
    assert theta.alpha_n == pytest.approx(1.1 * theta.alpha_r)
    assert theta.beta_n == pytest.approx(1.1 * theta.beta_r)


def test_one_node_never_seen_is_believed_free() -> None:
    theta = fit_one([(1, 1, 64), (2, 2, 64), (2, 4, 64), (2, 4, 128)]).params
    assert (theta.alpha_r, theta.beta_r) == pytest.approx((TINY_S, TINY_S))
    assert theta.alpha_n > 1e-2


def test_never_more_than_two_workers_leaves_the_slopes_free() -> None:
    theta = fit_one([(1, 1, 64), (1, 2, 64), (2, 2, 64), (2, 2, 128)]).params
    assert (theta.beta_r, theta.beta_n) == pytest.approx((TINY_S, TINY_S))
    assert theta.alpha_r > 1e-3
    assert theta.alpha_n > 1e-2


def test_once_seen_nothing_is_pinned() -> None:
    theta = fit_one(everywhere()).params
    assert min(theta.alpha_r, theta.alpha_n, theta.beta_r, theta.beta_n) > 1e-5


@pytest.mark.parametrize(
    "seen", [[(1, 1, 64)], [(1, 1, 64), (1, 2, 64)], [(1, 1, 64), (1, 2, 64), (1, 4, 128)]]
)
def test_the_belief_is_never_worse_than_the_truth_about_more_workers(seen: list[Configuration]) -> None:
    theta = arrays(fit_one(seen).params)
    more = np.array([8.0]), np.array([32.0]), np.array([64.0]), np.array(0.0)
    assert step_time_s(theta, *more)[0] <= step_time_s(arrays(TRUTH), *more)[0]


# ---- batching and warm starts ----------------------------------------------------------------------------


def some_jobs() -> list[Observations]:
    return [
        observed(everywhere()),
        observed([(1, 1, 64)]),
        observed([(1, 1, 64), (1, 2, 64), (1, 2, 100)], SLOW),
        observed(everywhere()[::3], SLOW, noise=0.03),
    ]


def test_many_jobs_at_once_fit_as_each_alone() -> None:
    jobs = some_jobs()
    for together, job in zip(fit_throughput(jobs), jobs, strict=True):
        alone = fit_throughput([job])[0]
        assert together.count == alone.count
        assert together.relative_error == pytest.approx(alone.relative_error, abs=0.005)
        places = list(zip(job.nodes, job.workers, job.per_gpu, strict=True))
        assert misfit(together, alone.params, places) < 0.02


def test_a_warm_start_gives_the_same_answer() -> None:
    early = fit_throughput([observed([(1, 1, 64), (1, 2, 64)])])[0]
    full = observed(everywhere())
    cold = fit_throughput([full])[0]
    for start in (early, cold):
        warm = fit_throughput([full], [start.params])[0]
        assert misfit(warm, cold.params, everywhere()) < 0.03
        assert warm.relative_error <= cold.relative_error + 0.005


def test_the_same_input_gives_the_same_fit() -> None:
    assert fit_throughput(some_jobs()) == fit_throughput(some_jobs())


# ---- odd input -------------------------------------------------------------------------------------------


def test_nothing_to_fit() -> None:
    assert fit_throughput([]) == []


@pytest.mark.parametrize(
    "data",
    [
        observed([(1, 1, 64)]),
        observed([(4, 16, 1)]),
        Observations(
            *(np.array([1.0, 1.0]), np.array([1.0, 2.0]), np.array([8.0, 8.0])),
            np.array([0.1, 0.1]),
            np.array([0.1, 0.1]),
        ),
        Observations(
            *(np.array([1.0, 1.0]), np.array([1.0, 1.0]), np.array([8.0, 16.0])),
            np.array([0.1, 0.1]),
            np.array([0.1, 0.1]),
        ),
        Observations(
            *(np.array([1.0, 1.0]), np.array([1.0, 1.0]), np.array([8.0, 16.0])),
            np.array([0.2, 0.1]),
            np.array([0.2, 0.1]),
        ),
        Observations(
            *(np.array([1.0, 2.0]), np.array([2.0, 2.0]), np.array([8.0, 16.0])),
            np.array([1e-7, 1e-6]),
            np.array([1e-7, 1e3]),
        ),
    ],
    ids=[
        "one",
        "one, distributed",
        "sync for free",
        "batch for free",
        "faster with more",
        "twelve decades apart",
    ],
)
def test_degenerate_measurements_give_finite_parameters(data: Observations) -> None:
    fit = fit_throughput([data])[0]
    assert all(np.isfinite(x) and x > 0.0 for x in fit.params)
    assert 1.0 <= fit.params.gamma <= 10.0
    assert np.isfinite(fit.relative_error)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 4),
            st.integers(1, 16),
            st.integers(1, 512),
            st.floats(1e-4, 10.0),
            st.floats(1.0, 5.0),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_whatever_was_measured_the_fit_is_finite(rows: list[tuple[int, int, int, float, float]]) -> None:
    nodes, workers, per_gpu, gradient_s, slower = np.array(rows, dtype=np.float64).T
    workers = np.maximum(nodes, workers)
    fit = fit_throughput([Observations(nodes, workers, per_gpu, gradient_s, gradient_s * slower)])[0]
    assert all(np.isfinite(x) and x > 0.0 for x in fit.params)
    assert 1.0 <= fit.params.gamma <= 10.0
