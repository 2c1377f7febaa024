"""Operators add up to steps, and the interval of a step is as wide as networks left out say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from elastane.predict.composition import WholeStep, composition
from elastane.predict.interval import Z90


def test_steps_are_composed_of_operators_and_calls() -> None:
    steps = tuple(
        WholeStep(s, c, 1.1 * s + 1e-5 * c + 1e-3) for s, c in ((0.1, 100), (0.01, 500), (0.05, 50), (0.2, 900))
    )
    found = composition(steps)
    assert found.factor == pytest.approx(1.1)
    assert found.per_call_s == pytest.approx(1e-5)
    assert found.per_step_s == pytest.approx(1e-3)
    assert composition(steps[:2]).factor == 1.07


@pytest.mark.parametrize("freedom", [2.5, 3.0, 4.0])
def test_intervals_cover_nine_in_ten_of_errors_with_heavy_tails(freedom: float) -> None:
    """Errors as large as the doubt, on networks that the spread was not learnt from; many calibrations."""
    draw = np.random.default_rng(0)

    def drawn(count: int) -> list[tuple[float, float]]:
        doubts = draw.uniform(0.05, 0.4, count)
        return [(float(d), float(draw.standard_t(freedom) * (0.3 * d + 0.04))) for d in doubts]

    inside = []
    for _ in range(40):
        steps = tuple(
            WholeStep(0.1, 100, 0.11, predicted_s=0.1 * math.exp(error), predicted_sd=doubt)
            for doubt, error in drawn(60)
        )
        found = composition(steps)
        assert found.spread(0.05) < found.log_sd < found.spread(0.4)
        inside += [abs(error) <= Z90 * found.spread(doubt) for doubt, error in drawn(200)]
    assert 0.87 < np.mean(inside) < 0.93


def test_a_network_that_was_measured_badly_does_not_decide_the_width() -> None:
    steps = [
        WholeStep(0.1, 100, 0.11 * math.exp(0.1 * (-1) ** place), predicted_s=0.1, predicted_sd=0.2)
        for place in range(40)
    ]
    usual = composition(tuple(steps)).log_sd
    steps[0] = WholeStep(0.1, 100, 11.0, predicted_s=0.1, predicted_sd=0.2)
    assert composition(tuple(steps)).log_sd < 1.2 * usual
