"""Convergence: the published example, recovery of synthetic curves, and refusal to guess about others."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from elastane.errors import ElastaneError
from elastane.models.convergence import (
    Forecast,
    LossCurve,
    Verdict,
    converged,
    fit_curve,
    forecast,
    without_outliers,
)
from elastane.models.estimate import Provenance

SEQ2SEQ = LossCurve((0.21, 1.07, 0.07))
K = np.arange(60.0)
curves = st.builds(
    lambda a, b, c: LossCurve((a, b, c)), st.floats(0.05, 0.6), st.floats(0.9, 1.2), st.floats(0.0, 0.3)
)
seeds = st.integers(0, 10_000)


def noisy(loss: NDArray[np.float64], noise: float, seed: int = 0) -> list[float]:
    return [float(x) for x in loss + noise * np.random.default_rng(seed).normal(size=len(loss))]


def judge(loss: NDArray[np.float64] | list[float], delta: float = 0.02) -> Forecast:
    return forecast([float(i) for i in range(len(loss))], list(loss), delta)


def test_seq2seq_example() -> None:
    assert [math.ceil(SEQ2SEQ.flat_from(delta)) for delta in (0.01, 0.02, 0.05)] == [17, 10, 5]


@given(curves, st.floats(0.001, 0.05))
def test_flat_from_is_where_the_decrease_falls_below_delta(curve: LossCurve, delta: float) -> None:
    at = curve.flat_from(delta)
    before, after = curve.loss(np.array([at, at + 1.0]))
    assert before - after <= delta + 1e-9
    if at > 0.0:
        assert before - after == pytest.approx(delta)


@settings(max_examples=30, deadline=None)
@given(curves)
def test_exact_curves_are_recovered(curve: LossCurve) -> None:
    assert fit_curve(K[:25], curve.loss(K[:25])).beta == pytest.approx(curve.beta, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize(("noise", "seen"), [(0.002, 15), (0.005, 30), (0.01, 60)])
@settings(max_examples=10)
@given(curves)
def test_noisy_curves_are_recovered(noise: float, seen: int, curve: LossCurve) -> None:
    """Noise is drawn twenty times: a single draw may mislead any fit, nine in ten may not."""
    errors = []
    for seed in range(20):
        losses = noisy(curve.loss(K[:seen]), noise, seed)
        found = judge(losses, delta=0.01)
        assert found.verdict is Verdict.TRUSTED, found.reason
        assert found.curve is not None
        top = max(losses)
        a, b, c = curve.beta
        truth = LossCurve((a * top, b * top, c / top)).flat_from(0.01)
        errors.append(abs(found.curve.flat_from(0.01) - truth) / max(truth, 4.0))
    assert np.quantile(errors, 0.9) <= 0.25


def test_remaining_epochs_with_an_interval() -> None:
    found = judge(noisy(SEQ2SEQ.loss(K[:10]), 0.003), delta=0.01)
    assert found.remaining_epochs is not None
    assert found.remaining_epochs.source is Provenance.FITTED
    assert found.remaining_epochs.mean == pytest.approx(16.23 - 9, abs=1.5)
    interval = found.interval_epochs()
    assert interval is not None
    assert 0.0 <= interval[0] <= 16.23 - 9 <= interval[1]
    assert not found.converged


def test_the_interval_narrows_as_training_goes_on() -> None:
    widths = []
    for seen in (8, 14, 40):
        estimate = judge(noisy(SEQ2SEQ.loss(K[:seen]), 0.005), delta=0.01).remaining_epochs
        assert estimate is not None
        widths.append(estimate.std)
    assert widths[0] > widths[1] > widths[2]


def test_nothing_remains_once_the_curve_is_flat() -> None:
    found = judge(SEQ2SEQ.loss(K))
    assert found.converged
    assert found.remaining_epochs is not None
    assert found.remaining_epochs.mean == 0.0


def test_a_lone_spike_changes_nothing() -> None:
    loss = SEQ2SEQ.loss(K[:20])
    spiked = loss.copy()
    spiked[8] = 9.0
    with_spike, without = judge(spiked).curve, judge(loss).curve
    assert with_spike is not None
    assert without is not None
    assert with_spike.beta == pytest.approx(without.beta, rel=0.05, abs=0.02)


def test_outliers_become_the_mean_of_their_neighbours() -> None:
    loss = np.array([1.0, 0.9, 5.0, 0.7, 0.1, 0.5, 0.4])
    assert without_outliers(np.arange(7.0), loss) == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4])


def test_thousands_of_points_are_thinned_and_still_understood() -> None:
    k = np.arange(0.0, 20.0, 0.004)
    found = forecast(k.tolist(), noisy(SEQ2SEQ.loss(k), 0.02), 0.01)
    assert found.verdict is Verdict.TRUSTED
    assert found.remaining_epochs is not None
    assert found.remaining_epochs.count <= 200
    assert found.curve is not None
    assert found.curve.flat_from(0.01) == pytest.approx(16.23, rel=0.1)


def test_after_a_learning_rate_drop_only_what_follows_is_fitted() -> None:
    after = LossCurve((0.9, 3.0, 0.1))
    loss = np.concatenate([LossCurve((0.3, 1.0, 0.4)).loss(K[:30]), after.loss(K[:12])])
    found = judge(noisy(loss, 0.001), delta=0.01)
    assert found.verdict is Verdict.TRUSTED, found.reason
    assert found.since_epoch == pytest.approx(30.0, abs=1.0)
    assert "drop at epoch" in found.reason
    assert found.curve is not None
    top = float(loss.max())
    expected = 30.0 + LossCurve((0.9 * top, 3.0 * top, 0.1 / top)).flat_from(0.01)
    assert found.curve.flat_from(0.01) == pytest.approx(expected, abs=1.0)


def test_just_after_a_learning_rate_drop_it_waits() -> None:
    before, after = LossCurve((0.3, 1.0, 0.4)).loss(K[:30]), LossCurve((0.3, 3.0, 0.1)).loss(K[:5])
    for seen in range(1, 6):
        found = judge(np.concatenate([before, after[:seen]]))
        assert found.verdict in {Verdict.CANNOT_TELL, Verdict.TOO_SHORT}
        assert found.remaining_epochs is None


REFUSED = {
    "rising": (0.5 + 0.02 * K, Verdict.NOT_CONVERGING),
    "fallen, then rising": (
        np.concatenate([1 / (1 + 0.2 * K[:40]), 0.12 + 0.01 * K[:30]]),
        Verdict.NOT_CONVERGING,
    ),
    "overflown": (np.append(1 / (1 + K), math.nan), Verdict.NOT_CONVERGING),
    "never moved": (np.ones(40), Verdict.CANNOT_TELL),
    "only noise": (np.array(noisy(np.ones(40), 0.05, seed=3)), Verdict.CANNOT_TELL),
    "a straight line": (1 - K / 100, Verdict.CANNOT_TELL),
    "an exponential": (0.1 + 0.9 * np.exp(-K / 10), Verdict.CANNOT_TELL),
    "a long plateau before the fall": (1 / (1 + np.exp((K - 25) / 4)) + 0.1, Verdict.CANNOT_TELL),
    "far too noisy": (np.array(noisy(1 / (1 + 0.3 * K) + 1.0, 0.25, seed=1)), Verdict.CANNOT_TELL),
    "a negative loss": (1 / (1 + K) - 0.5, Verdict.CANNOT_TELL),
    "five points": (1 / (1 + K[:5]), Verdict.TOO_SHORT),
    "nothing at all": (np.array([]), Verdict.TOO_SHORT),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_curves_get_a_reason_and_no_number(name: str) -> None:
    loss, verdict = REFUSED[name]
    found = judge(loss)
    assert found.verdict is verdict, found.reason
    assert found.remaining_epochs is None
    assert found.interval_epochs() is None
    assert found.reason.endswith(".")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.0, 1e6) | st.just(math.nan), max_size=40), st.floats(0.001, 0.2))
def test_any_series_gets_a_verdict(losses: list[float], delta: float) -> None:
    found = judge(losses, delta)
    assert (found.remaining_epochs is not None) == (found.verdict is Verdict.TRUSTED)
    if found.remaining_epochs is not None:
        assert math.isfinite(found.remaining_epochs.mean)
        assert math.isfinite(found.remaining_epochs.std)


@settings(max_examples=30, deadline=None)
@given(curves, seeds, st.floats(0.01, 1000.0))
def test_the_unit_of_the_loss_does_not_matter(curve: LossCurve, seed: int, unit: float) -> None:
    losses = noisy(curve.loss(K[:30]), 0.005, seed)
    plain, scaled = judge(losses), judge([unit * x for x in losses])
    assert plain.verdict is scaled.verdict
    assert plain.remaining_epochs is not None
    assert scaled.remaining_epochs is not None
    assert scaled.remaining_epochs.mean == pytest.approx(plain.remaining_epochs.mean, abs=0.1)


def test_converged_means_several_flat_epochs_in_a_row() -> None:
    epochs = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert converged(epochs, [1.0, 0.5, 0.40, 0.395, 0.39, 0.389], delta=0.02)
    assert not converged(epochs, [1.0, 0.5, 0.45, 0.395, 0.39, 0.389], delta=0.02)
    assert not converged(epochs, [1.0, 0.4, 0.40, 0.40, 0.40, 0.50], delta=0.02)
    assert not converged(epochs[:3], [0.4, 0.4, 0.4], delta=0.02)


def test_a_flat_stretch_within_one_epoch_is_not_convergence() -> None:
    epochs = [0.0, 1.0, 2.0, 3.0, 3.1, 3.2, 3.3, 3.4]
    assert not converged(epochs, [1.0, 0.8, 0.6, 0.4, 0.4, 0.4, 0.4, 0.4], delta=0.02)


def test_nonsense_is_refused() -> None:
    with pytest.raises(ElastaneError, match="threshold"):
        forecast([1.0], [1.0], delta=0.0)
    with pytest.raises(ValueError, match="strictly increasing"):
        forecast([1.0, 1.0], [1.0, 1.0])
