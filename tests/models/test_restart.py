"""Restart cost: prior, robust learning, and Pollux's re-allocation factor."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.errors import ElastaneError
from elastane.models.estimate import Provenance
from elastane.models.restart import RestartCost, realloc_factor


def learned(*pauses_s: float, declared_s: float | None = None) -> RestartCost:
    cost = RestartCost.of(declared_s)
    for pause_s in pauses_s:
        cost = cost.observe(pause_s)
    return cost


def test_without_a_word_from_anyone_a_restart_takes_thirty_seconds() -> None:
    guess = RestartCost.of().estimate()
    assert (guess.mean, guess.count, guess.source) == (30.0, 0, Provenance.PRIOR)
    assert guess.std > 0.0


def test_a_declared_cost_replaces_the_prior() -> None:
    guess = RestartCost.of(250.0).estimate()
    assert (guess.mean, guess.source) == (250.0, Provenance.DECLARED)


def test_measured_pauses_take_over() -> None:
    after_one = learned(250.0).estimate()
    assert 30.0 < after_one.mean < 250.0
    assert after_one.source is Provenance.PROFILED
    assert learned(*[250.0] * 3).estimate().mean > 200.0
    settled = learned(*[250.0] * 16).estimate()
    assert settled.mean == pytest.approx(250.0)
    assert settled.count == 16


def test_one_stuck_restart_does_not_spoil_the_estimate() -> None:
    usual = learned(*[40.0, 42.0, 38.0, 41.0, 39.0] * 3).estimate().mean
    spoilt = learned(*[40.0, 42.0, 38.0, 41.0, 39.0] * 3, 3600.0).estimate().mean
    assert abs(spoilt - usual) < 3.0


def test_old_pauses_are_forgotten() -> None:
    assert learned(*[300.0] * 50, *[20.0] * 16).estimate().mean == pytest.approx(20.0)


def test_the_spread_covers_the_pauses_seen() -> None:
    low, high = learned(*np.linspace(20.0, 40.0, 16)).estimate().interval()
    assert low < 22.0
    assert high > 38.0


@given(st.lists(st.floats(0.0, 1e4), min_size=1, max_size=40))
def test_the_estimate_stays_within_what_was_seen(pauses_s: list[float]) -> None:
    guess = learned(*pauses_s).estimate()
    assert min(30.0, *pauses_s) - 1e-6 <= guess.mean <= max(30.0, *pauses_s) + 1e-6
    assert guess.count == len(pauses_s)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_nonsense_is_refused(bad: float) -> None:
    with pytest.raises(ElastaneError, match="restart seconds"):
        RestartCost.of(bad)
    with pytest.raises(ValueError, match="pause"):
        RestartCost.of().observe(bad)


@pytest.mark.parametrize(
    ("delta_s", "age_s", "restarts", "factor"),
    [
        (30.0, 0.0, 0, 0.0),
        (30.0, 30.0, 0, 0.5),
        (30.0, 570.0, 0, 0.95),
        (30.0, 570.0, 3, 0.8),
        (30.0, 60.0, 5, 0.0),
        (0.0, 0.0, 0, 1.0),
        (0.0, 100.0, 9, 1.0),
    ],
)
def test_realloc_factor(delta_s: float, age_s: float, restarts: int, factor: float) -> None:
    assert float(realloc_factor(delta_s, age_s, restarts)) == pytest.approx(factor)


def test_realloc_factor_broadcasts() -> None:
    factors = realloc_factor(30.0, np.array([[0.0], [570.0]]), np.array([0, 3]))
    assert factors == pytest.approx(np.array([[0.0, 0.0], [0.95, 0.8]]))


@given(st.floats(0.0, 600.0), st.floats(0.0, 1e6), st.integers(0, 100), st.floats(0.0, 1e5), st.integers(0, 10))
def test_moving_gets_cheaper_with_age_and_dearer_with_restarts(
    delta_s: float, age_s: float, restarts: int, older_s: float, more: int
) -> None:
    now = float(realloc_factor(delta_s, age_s, restarts))
    assert 0.0 <= now <= 1.0
    assert float(realloc_factor(delta_s, age_s + older_s, restarts)) >= now - 1e-12
    assert float(realloc_factor(delta_s, age_s, restarts + more)) <= now + 1e-12
