"""Gradient noise scale: the worked example, unbiasedness, memory, and what must not disturb it."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.errors import ElastaneError
from elastane.models.estimate import Provenance
from elastane.models.noise import MEMORY, NoiseScale

norms = st.floats(1e-3, 1e3)


def simulated(seed: int, steps: int, replicas: int, batch0: int = 32) -> tuple[NoiseScale, float]:
    """Gradients with a known mean and covariance; also returns the true noise scale."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=20)
    sigma_m0 = 1.5  # per coordinate, at batch M0
    state = NoiseScale(batch0)
    for _ in range(steps):
        # Each replica holds M0 samples, so that S = replicas.
        grads = truth + sigma_m0 * rng.normal(size=(replicas, 20))
        local = float((grads**2).sum(axis=1).mean())
        total = float((grads.mean(axis=0) ** 2).sum())
        state = state.observe([local], [total], replicas, float(replicas))
    return state, batch0 * 20 * sigma_m0**2 / float((truth**2).sum())


def test_worked_example() -> None:
    state = NoiseScale(batch0=100).observe([10.0], [4.0], count=4, scale=4.0)
    assert state.phi == pytest.approx(4 * 100)
    assert state.gain(4.0) == pytest.approx(2.5)
    assert state.efficiency(400) == pytest.approx(0.625)


def test_before_the_first_sample_nothing_is_gained_by_a_larger_batch() -> None:
    state = NoiseScale(batch0=64)
    assert state.gain(8.0) == pytest.approx(1.0, abs=1e-4)
    assert state.estimate().source is Provenance.PRIOR
    assert state.estimate().count == 0


@pytest.mark.parametrize("replicas", [2, 8])
def test_recovers_a_known_noise_scale_within_its_own_error(replicas: int) -> None:
    state, truth = simulated(seed=1, steps=2000, replicas=replicas)
    found = state.estimate()
    assert found.source is Provenance.PROFILED
    assert found.count == 2000
    assert 0.0 < found.std < 0.1 * truth
    assert abs(found.mean - truth) < 4.0 * found.std


def test_the_reported_error_matches_the_scatter_between_runs() -> None:
    runs = [simulated(seed, steps=150, replicas=4)[0].estimate() for seed in range(20)]
    # All runs of one seed share their truth; scatter is measured relative to it.
    ratios = [run.mean / simulated(seed, 1, 4)[1] for seed, run in enumerate(runs)]
    claimed = float(np.mean([run.std / run.mean for run in runs]))
    assert 0.5 * claimed < float(np.std(ratios)) < 2.0 * claimed


def test_memory_is_a_number_of_samples_not_of_steps() -> None:
    before = NoiseScale(1).observe([10.0], [4.0], 4, 1.0)
    for scale in (1.0, 16.0):
        after = before.observe([10.0], [4.0], 4, scale)
        assert after.weight == pytest.approx((1 - MEMORY) * MEMORY**scale + (1 - MEMORY**scale))


def test_the_first_unbiased_sample_forgets_all_differences() -> None:
    biased = NoiseScale(8)
    for _ in range(5):
        biased = biased.observe_single([9.0], [7.0], [2.0], scale=1.0)
    assert biased.biased
    fresh = NoiseScale(8).observe([10.0], [4.0], 4, 4.0)
    assert biased.observe([10.0], [4.0], 4, 4.0) == fresh
    assert not fresh.biased


def test_a_single_gradient_is_compared_with_the_one_before() -> None:
    # local = 8, total = 2, n = 2, S = 2: sqr = (4 − 8)/1 < 0 and var = 12.
    state = NoiseScale(8).observe_single([9.0], [7.0], [2.0], scale=1.0)
    assert state.phi == math.inf
    assert state.efficiency(800) == pytest.approx(1.0)
    assert state.gain(4.0) == pytest.approx(4.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_overflowed_steps_change_nothing(bad: float) -> None:
    state = NoiseScale(8).observe([10.0, 1.0], [4.0, 0.5], 4, 4.0)
    assert state.observe([bad, 1.0], [4.0, 0.5], 4, 4.0) is state
    assert state.observe([10.0, 1.0], [4.0, bad], 4, 4.0) is state
    assert state.observe_single([bad, 1.0], [1.0, 1.0], [1.0, 1.0], 1.0) is state


def test_groups_are_summed_for_phi_and_kept_apart_for_learning_rates() -> None:
    state = NoiseScale(10).observe([10.0, 3.0], [4.0, 3.0], 4, 4.0)
    noisy, still = state.group_gains(4.0)
    assert noisy == pytest.approx(2.5)
    assert still == pytest.approx(1.0, abs=1e-5)
    assert state.phi == pytest.approx(10 * 8.0 / 5.0, rel=1e-5)


@given(
    samples=st.lists(st.tuples(norms, norms, st.integers(2, 64)), min_size=1, max_size=20),
    scale=st.floats(1.0, 64.0),
)
def test_gain_lies_between_one_and_the_scale(samples: list[tuple[float, float, int]], scale: float) -> None:
    state = NoiseScale(16)
    for local, total, count in samples:
        state = state.observe([local], [total], count, scale)
    assert 1.0 - 1e-9 <= state.gain(scale) <= scale + 1e-9
    assert state.efficiency(16 * scale) == pytest.approx(state.gain(scale) / scale)


@given(samples=st.lists(st.tuples(norms, norms), max_size=8), single=st.booleans())
def test_a_saved_state_continues_exactly(samples: list[tuple[float, float]], single: bool) -> None:
    state = NoiseScale(16)
    for local, total in samples:
        state = state.observe([local], [total], 4, 4.0)
    if single:
        state = state.observe_single([2.0], [3.0], [1.0], 1.0)
    assert NoiseScale.from_dict(json.loads(json.dumps(state.to_dict()))) == state


def test_a_damaged_state_is_named_as_such() -> None:
    with pytest.raises(ElastaneError, match="not a saved gradient noise state"):
        NoiseScale.from_dict({"batch0": 8})


def test_one_gradient_is_no_unbiased_sample() -> None:
    with pytest.raises(ValueError, match="two gradients"):
        NoiseScale(8).observe([1.0], [1.0], 1, 1.0)


def test_batch_zero_is_refused() -> None:
    with pytest.raises(ElastaneError, match="batch size"):
        NoiseScale(0)
