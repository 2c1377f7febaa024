"""Jobs of which nobody can tell how much is left."""

from __future__ import annotations

import numpy as np
import pytest

from elastane.policies.elastane.unknown_length import lengths


def test_without_a_past_jobs_are_taken_to_be_half_way_in_classes() -> None:
    assert lengths(np.array([5.0, 100.0, 1000.0]), []).tolist() == [16.0, 256.0, 1024.0]


def test_a_past_of_two_kinds_puts_a_job_that_outlived_the_short_kind_behind() -> None:
    """Forty jobs ended after 100 GPU seconds, forty after 10,000: at 50 the end is near, at 200 it is far."""
    past = [100.0] * 40 + [10_000.0] * 40
    near, far, nearer = lengths(np.array([50.0, 200.0, 9_900.0]), past)
    assert near < far
    assert nearer < far


@pytest.mark.parametrize("size", [3, 64, 500])
def test_the_length_is_the_inverse_of_the_best_gittins_index(size: int) -> None:
    """Against the definition, tried at every end: rounded up to a power of four."""
    past = np.random.default_rng(size).lognormal(6.0, 1.0, size)
    attained = 300.0
    ends = np.quantile(past, (np.arange(64) + 0.5) / 64) if size > 64 else past
    weights = np.full(len(ends), max(size / len(ends), 1.0))
    ends, weights = np.append(ends, [2.0 * attained] * 5), np.append(weights, np.ones(5))
    left, weights = (ends - attained)[ends > attained], weights[ends > attained]
    best = min(
        float((weights * np.minimum(left, delta)).sum() / weights[left <= delta].sum()) for delta in left
    )
    assert lengths(np.array([attained]), past.tolist())[0] == pytest.approx(
        4.0 ** np.ceil(np.log(best) / np.log(4.0))
    )


def test_a_job_that_has_had_nothing_comes_first() -> None:
    first, later = lengths(np.array([0.0, 500.0]), [1000.0, 2000.0])
    assert first < later
