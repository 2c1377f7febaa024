"""Step times: what is counted, how both times are formed, when a fit is due, and that it survives."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.models.goodput import BatchLimits
from elastane.models.throughput import ThroughputParams, gradient_time_s, step_time_s, sync_time_s
from elastane.train.adapt.profile import Key, StepProfile
from elastane.train.errors import TrainError

LIMITS = BatchLimits(64, 4096, 1, 1024)
THETA = ThroughputParams(*(np.array(x) for x in (0.02, 0.0007, 0.12, 0.0026, 0.03, 0.0009, 1.0)))


def run(profile: StepProfile, key: Key, steps: int = 5, plain_passes: int = 0, slower: float = 1.0) -> None:
    """Steps as the model of ``THETA`` would time them (without overlap)."""
    nodes, workers, samples = (np.array(float(x)) for x in key)
    gradient_s = float(gradient_time_s(THETA, samples)) * slower
    sync_s = float(sync_time_s(THETA, nodes, workers)) * slower
    for _ in range(steps):
        profile.add(key, [gradient_s] * plain_passes, gradient_s + sync_s, sync_s)


def test_both_times_pool_what_the_paper_pools() -> None:
    profile = StepProfile()
    key = (1, 2, 32)
    profile.add(key, [], 99.0, 0.0)
    profile.add(key, [1.0, 1.2], 2.0, 0.9)
    profile.add(key, [1.1], 2.4, 1.4)
    times = profile.table[key]
    # T_grad: three plain passes of 3.3 s together and two synchronising ones of 1.1 and 1.0 s without sync.
    assert times.gradient_s == pytest.approx((3.3 + 1.1 + 1.0) / 5)
    assert times.step_s == pytest.approx(2.2)


def test_the_first_step_after_a_start_a_resize_or_another_batch_is_not_counted() -> None:
    profile = StepProfile()
    for key in [(1, 1, 32), (1, 1, 32), (1, 2, 32), (1, 2, 32), (1, 2, 64), (1, 2, 64)]:
        profile.add(key, [], 1.0, 0.0)
    profile.restart()
    profile.add((1, 2, 64), [], 1.0, 0.0)
    assert {key: times.last_count for key, times in profile.table.items()} == {
        (1, 1, 32): 1,
        (1, 2, 32): 1,
        (1, 2, 64): 1,
    }


@given(st.floats(0.0, 10.0), st.floats(0.0, 10.0))
def test_times_stay_positive_and_sync_never_exceeds_the_step(last_s: float, sync_s: float) -> None:
    profile = StepProfile()
    for _ in range(2):
        profile.add((1, 2, 8), [], last_s, sync_s)
    times = profile.table[(1, 2, 8)]
    assert 0.0 < times.gradient_s <= times.step_s


def test_a_machine_that_became_slower_is_believed_in_the_end() -> None:
    profile = StepProfile()
    key = (1, 2, 32)
    for _ in range(20_000):
        profile.add(key, [1.0], 1.0, 0.5)
    for _ in range(10_000):
        profile.add(key, [2.0], 2.0, 1.0)
    assert profile.table[key].step_s == pytest.approx(2.0, rel=0.05)
    assert profile.table[key].gradient_s == pytest.approx(1.5, rel=0.05)


def test_the_fitted_model_predicts_what_was_measured() -> None:
    profile = StepProfile()
    for key in [(1, 1, 32), (1, 1, 64), (1, 2, 64), (1, 4, 64), (2, 4, 64), (2, 8, 64)]:
        run(profile, key)
    model = profile.model(LIMITS, noise=500.0)
    assert model is not None
    assert model.noise == 500.0
    assert model.max_profiled == 8
    for nodes, workers, samples in [(1, 4, 128), (2, 8, 256)]:
        place = [np.array(float(x)) for x in (nodes, workers, samples, 1)]
        expected = float(step_time_s(THETA, *place))
        theta = ThroughputParams(*(np.array(x) for x in model.theta("")))
        assert float(step_time_s(theta, *place)) == pytest.approx(expected, rel=0.1)


def test_a_fit_is_due_for_a_new_configuration_or_a_changed_time_only() -> None:
    profile = StepProfile()
    assert not profile.stale
    run(profile, (1, 1, 32))
    assert profile.stale
    profile.model(LIMITS, 1.0)
    run(profile, (1, 1, 32))
    assert not profile.stale
    run(profile, (1, 1, 64))
    assert profile.stale
    profile.model(LIMITS, 1.0)
    run(profile, (1, 1, 64), steps=10, slower=1.5)
    assert profile.stale


def test_limits_and_noise_are_always_todays() -> None:
    profile = StepProfile()
    assert profile.model(LIMITS, 1.0) is None
    run(profile, (1, 1, 32))
    first = profile.model(LIMITS, 1.0)
    tighter = BatchLimits(64, 4096, 1, 16)
    second = profile.model(tighter, 2.0)
    assert first is not None
    assert second is not None
    assert (second.limits, second.noise) == (tighter, 2.0)
    assert second.params == first.params


def test_knowledge_survives_as_json() -> None:
    profile = StepProfile()
    for key in [(1, 1, 32), (1, 2, 64)]:
        run(profile, key, plain_passes=2)
    restored = StepProfile()
    restored.load_state_dict(json.loads(json.dumps(profile.state_dict())))
    assert restored.table == profile.table
    before, after = profile.model(LIMITS, 5.0), restored.model(LIMITS, 5.0)
    assert before is not None
    assert after is not None
    assert after.params == before.params
    restored.add((1, 2, 64), [], 1.0, 0.0)
    assert restored.table == profile.table


def test_a_foreign_state_is_refused() -> None:
    with pytest.raises(TrainError, match="not a saved profile"):
        StepProfile().load_state_dict({"table": [[1, 2]]})
