"""Parameter-server speed: golden coefficients, few-sample accuracy, provenance and honest uncertainty."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.errors import ElastaneError
from elastane.models.estimate import Provenance
from elastane.models.parameter_server import (
    ParameterServerSpeed,
    SpeedSample,
    Updates,
    fit_speed,
    pre_run_pairs,
)

BATCH = 32.0
RESNET50 = {Updates.ASYNC: (2.83, 3.92, 0.0, 0.11), Updates.SYNC: (1.02, 2.78, 4.92, 0.0, 0.02)}
PAIRS = [(p, w) for p in range(1, 40) for w in range(1, 41 - p)]
both = pytest.mark.parametrize("updates", list(Updates))


def truth(updates: Updates, p: int, w: int) -> float:
    """The paper's formulas, written out independently of the module."""
    t = RESNET50[updates]
    if updates is Updates.ASYNC:
        return w / (t[0] + t[1] * w / p + t[2] * w + t[3] * p)
    return 1 / (t[0] * BATCH / w + t[1] + t[2] * w / p + t[3] * w + t[4] * p)


def fitted(
    updates: Updates, pairs: list[tuple[int, int]], noise: float = 0.0, seed: int = 0
) -> ParameterServerSpeed:
    rng = np.random.default_rng(seed)
    samples = [SpeedSample(p, w, truth(updates, p, w) * float(np.exp(noise * rng.normal()))) for p, w in pairs]
    return fit_speed(updates, BATCH, samples)


def relative_errors(model: ParameterServerSpeed) -> list[float]:
    rates = model.rates(*np.array(PAIRS).T)
    return [abs(rate / truth(model.updates, p, w) - 1) for rate, (p, w) in zip(rates, PAIRS, strict=True)]


def random_pairs(seed: int, count: int) -> list[tuple[int, int]]:
    chosen = np.random.default_rng(seed).choice(len(PAIRS), count, replace=False)
    return [PAIRS[i] for i in chosen]


def test_the_example_has_780_pairs() -> None:
    assert len(PAIRS) == 780


@both
def test_golden_coefficients_come_back_from_exact_speeds(updates: Updates) -> None:
    model = fitted(updates, random_pairs(0, 12))
    assert model.theta == pytest.approx(RESNET50[updates], abs=1e-9)


@both
@pytest.mark.parametrize("seed", range(10))
def test_ten_random_pairs_predict_within_ten_percent(updates: Updates, seed: int) -> None:
    model = fitted(updates, random_pairs(seed, 10), noise=0.03, seed=seed)
    assert float(np.mean(relative_errors(model))) < 0.1


@both
def test_five_pre_runs_predict_within_ten_percent(updates: Updates) -> None:
    for seed in range(10):
        model = fitted(updates, list(pre_run_pairs(20, 20)), noise=0.03, seed=seed)
        assert float(np.mean(relative_errors(model))) < 0.1


@both
def test_below_the_least_number_of_pairs_only_measurements_are_known(updates: Updates) -> None:
    pairs = random_pairs(3, updates.least_pairs)
    short = fitted(updates, [*pairs[:-1], pairs[0], pairs[0]])
    assert short.predict(*pairs[-1]) is None
    assert short.predict(*pairs[0]) is not None
    assert np.isnan(short.rates(*pairs[-1])).all()
    assert fitted(updates, pairs).predict(30, 10) is not None


def test_least_pairs() -> None:
    assert (Updates.SYNC.least_pairs, Updates.ASYNC.least_pairs) == (5, 4)


@both
def test_measured_pairs_are_used_as_they_are(updates: Updates) -> None:
    odd_one = SpeedSample(4, 4, 3.0 * truth(updates, 4, 4))
    samples = [SpeedSample(p, w, truth(updates, p, w)) for p, w in random_pairs(1, 10)]
    model = fit_speed(updates, BATCH, [*samples, odd_one])
    measured, between = model.predict(4, 4), model.predict(4, 5)
    assert measured is not None
    assert between is not None
    assert (measured.mean, measured.source) == (odd_one.steps_per_s, Provenance.PROFILED)
    assert between.source is Provenance.FITTED
    assert float(model.rates([4], [4])[0]) == odd_one.steps_per_s


def test_repeated_measurements_are_averaged() -> None:
    model = fit_speed(Updates.SYNC, BATCH, [SpeedSample(1, 1, 1.0), SpeedSample(1, 1, 3.0)])
    known = model.predict(1, 1)
    assert known is not None
    assert (known.mean, known.std, known.count) == (2.0, pytest.approx(1.0), 2)


@both
def test_noisier_measurements_mean_wider_predictions(updates: Updates) -> None:
    stds = []
    for noise in (0.0, 0.3):
        found = fitted(updates, random_pairs(5, 30), noise).predict(7, 11)
        assert found is not None
        stds.append(found.std / found.mean)
    assert 0.0 < stds[0] < stds[1]


def test_predictions_far_from_the_data_are_wider() -> None:
    # On the diagonal w/p never changes: the fit cannot know what one server and many workers do.
    model = fitted(Updates.SYNC, [(n, n) for n in (1, 2, 3, 5, 7, 9)])
    near, far = model.predict(4, 4), model.predict(1, 30)
    assert near is not None
    assert far is not None
    assert far.std / far.mean > 3.0 * near.std / near.mean


@both
def test_intervals_cover_the_truth(updates: Updates) -> None:
    covered = 0
    for seed in range(40):
        found = fitted(updates, random_pairs(seed, 10), noise=0.05, seed=seed).predict(20, 20)
        assert found is not None
        low, high = found.interval()
        covered += low <= truth(updates, 20, 20) <= high
    assert covered >= 34


def test_scalar_and_array_predictions_agree() -> None:
    model = fitted(Updates.SYNC, random_pairs(2, 10))
    for p, w in PAIRS[::37]:
        found = model.predict(p, w)
        assert found is not None
        assert float(model.rates(p, w)) == pytest.approx(found.mean)


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 12))
def test_pre_runs_are_distinct_and_within_limits(servers: int, workers: int, count: int) -> None:
    pairs = pre_run_pairs(servers, workers, count)
    assert len(set(pairs)) == len(pairs) == min(count, servers * workers)
    assert all(1 <= p <= servers and 1 <= w <= workers for p, w in pairs)


def test_pre_runs_are_the_corners_and_the_middle() -> None:
    assert set(pre_run_pairs(10, 10)) == {(1, 1), (10, 10), (1, 10), (10, 1), (3, 3)}


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="not a measured"):
        SpeedSample(1, 0, 1.0)
    with pytest.raises(ElastaneError, match="batch size"):
        fit_speed(Updates.SYNC, 0.0, [])
    with pytest.raises(ElastaneError, match="pre-runs"):
        pre_run_pairs(0, 1)
