"""Loss curves: both families are found again, and what has no such shape gains nothing."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from elastane.policies.slaq.loss_curves import FLAT, Curve, curves_of

SHAPES: dict[str, Callable[[float], float]] = {
    "1/k": lambda k: 1.0 / k,
    "1/k² + floor": lambda k: 1.0 / (0.1 * k * k + 0.3 * k + 0.5) + 0.2,
    "Optimus's": lambda k: 1.0 / (0.21 * k + 1.07) + 0.07,
    "exponential": lambda k: 0.8 ** (k - 3.0) + 0.5,
    "below 0": lambda k: 1.0 / (k + 2.0) - 4.0,
}


def history(loss: Callable[[float], float], until: int) -> list[tuple[float, float]]:
    return [(500.0 * k, loss(float(k))) for k in range(1, until + 1)]


def only(points: list[tuple[float, float]], decay: float = 0.9) -> Curve:
    (curve,) = curves_of([points], decay)
    assert curve is not None
    return curve


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("until", [8, 20, 60])
def test_curves_of_both_families_are_foretold_within_five_per_cent(shape: str, until: int) -> None:
    loss = SHAPES[shape]
    step = max(loss(k) - loss(k + 1.0) for k in range(1, until))
    for ahead in (1.0, 3.0):
        truth = (loss(float(until)) - loss(until + ahead)) / step
        assert only(history(loss, until)).fall(np.array([500.0 * ahead]))[0] == pytest.approx(
            truth, rel=0.05, abs=5e-5
        )


def test_recent_losses_count_more() -> None:
    # The loss fell fast at first and slowly later, as no curve of the families does.
    points = history(lambda k: 1.0 - 0.1 * k if k <= 8 else 0.2 - 0.001 * (k - 8), 20)
    all_alike, recent = (float(only(points, decay).fall(np.array([500.0]))[0]) for decay in (1.0, 0.5))
    assert abs(recent - 0.01) < abs(all_alike - 0.01)  # it falls by 0.001 in a step, and once fell by 0.1


@pytest.mark.parametrize("loss", [lambda k: 3.0, lambda k: 0.1 * k, lambda k: math.log(k)])
def test_a_loss_that_does_not_fall_promises_nothing(loss: Callable[[float], float]) -> None:
    assert only(history(loss, 12)).fall(np.array([0.0, 500.0, 1e9])) == pytest.approx([0.0, 0.0, 0.0], abs=1e-9)


def test_a_loss_that_is_no_number_any_more_promises_nothing() -> None:
    assert only([*history(SHAPES["1/k"], 12), (9_000.0, math.nan)]) is FLAT


def test_lost_numbers_in_between_are_passed_over() -> None:
    clean = history(SHAPES["1/k"], 12)
    assert only([*clean[:5], (2_600.0, math.inf), *clean[5:]]) == only(clean)


def test_too_few_losses_are_no_curve() -> None:
    assert curves_of([history(SHAPES["1/k"], 5), [], [(0.0, 9.0)]], 0.9) == [None, None, None]


def test_each_job_is_fitted_as_if_it_were_alone() -> None:
    several = [history(loss, 7 + 5 * i) for i, loss in enumerate(SHAPES.values())]
    ahead = np.array([100.0, 1_000.0])
    for together, points in zip(curves_of([*several, []], 0.9), several, strict=False):
        assert together is not None
        assert together.fall(ahead) == pytest.approx(only(points).fall(ahead), rel=1e-6)


def test_falls_grow_with_work_and_never_rise() -> None:
    rng = np.random.default_rng(3)
    noisy = [[(float(k), float(2.0 / k + rng.normal(0.0, 0.05))) for k in range(1, 30)] for _ in range(20)]
    for curve in curves_of(noisy, 0.9):
        assert curve is not None
        falls = curve.fall(np.linspace(0.0, 100.0, 50))
        assert np.isfinite(falls).all()
        assert falls[0] == 0.0
        assert (np.diff(falls) >= 0.0).all()
