"""The record of what fits: growth by doubling at most, never back to what was refused, remembered."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.train.adapt.memory_limit import MemoryLimit
from elastane.train.errors import TrainError


def search(limit: MemoryLimit, capacity: int, attempts: int = 60) -> list[int]:
    """Try what is allowed until nothing new is; returns the attempts."""
    tried = []
    for _ in range(attempts):
        asked = limit.allowed()
        if asked <= limit.known:
            break
        tried.append(asked)
        if asked <= capacity:
            limit.proven(asked)
        else:
            limit.refused(asked)
    return tried


@given(st.integers(1, 1000), st.integers(0, 100_000))
def test_the_search_ends_close_below_what_fits(assumed: int, beyond: int) -> None:
    capacity = assumed + beyond
    limit = MemoryLimit(assumed=assumed)
    tried = search(limit, capacity)
    assert limit.known <= capacity
    assert capacity - limit.known <= max(1.0, 0.05 * limit.known)
    assert len(tried) <= 25


@given(st.integers(1, 100), st.lists(st.tuples(st.booleans(), st.integers(2, 5000)), max_size=30))
def test_an_attempt_at_most_doubles_and_never_reaches_a_refused_size(
    assumed: int, told: list[tuple[bool, int]]
) -> None:
    limit = MemoryLimit(assumed=assumed)
    lowest = None
    for fits, samples in told:
        if fits:
            limit.proven(samples)
        else:
            limit.refused(samples)
            lowest = min(samples, lowest or samples)
        assert 1 <= limit.known <= limit.allowed() <= 2 * limit.known
        assert lowest is None or limit.allowed() < lowest


def test_a_declared_limit_needs_no_proof() -> None:
    limit = MemoryLimit(declared=512, assumed=64)
    assert limit.allowed() == 512


def test_a_refusal_below_the_declared_limit_counts() -> None:
    limit = MemoryLimit(declared=512, assumed=64)
    limit.refused(300)
    assert limit.allowed() == 128


def test_a_refused_size_stays_refused() -> None:
    limit = MemoryLimit(assumed=100)
    limit.refused(150)
    limit.proven(150)
    assert limit.known == 100


def test_what_fitted_once_but_not_now_is_left_by_half() -> None:
    limit = MemoryLimit(assumed=100)
    limit.refused(100)
    assert limit.known == 50


def test_not_even_one_sample_is_an_error() -> None:
    with pytest.raises(TrainError, match="not even one sample"):
        MemoryLimit(assumed=1).refused(1)
    with pytest.raises(TrainError, match="per-worker maximum"):
        MemoryLimit(declared=0)


def test_it_is_remembered_as_json() -> None:
    limit = MemoryLimit(assumed=64)
    search(limit, 777)
    restored = MemoryLimit(assumed=64)
    restored.load_state_dict(json.loads(json.dumps(limit.state_dict())))
    assert (restored.known, restored.allowed()) == (limit.known, limit.allowed())
    with pytest.raises(TrainError, match="memory limit"):
        restored.load_state_dict({})
