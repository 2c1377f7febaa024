"""The elastic sampler: each sample at most once in a pass, whoever comes and goes."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from math import ceil
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import elastane.compat.horovod as hvd
from elastane.compat.horovod.elastic import ElasticSampler
from elastane.compat.horovod.elastic import sampler as module
from elastane.compat.horovod.elastic.sampler import usable


@contextmanager
def worker(rank: int, size: int):
    session = mock.MagicMock()
    with mock.patch.multiple(module, rank=lambda: rank, size=lambda: size, session=lambda: session):
        yield


@given(
    samples=st.integers(1, 60),
    batch=st.integers(1, 9),
    rounds=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4)), min_size=1, max_size=4),
    known=st.booleans(),
)
def test_no_sample_is_given_twice_in_a_pass_and_all_workers_have_equally_many_batches(
    samples: int, batch: int, rounds: list[tuple[int, int]], known: bool
) -> None:
    sampler = ElasticSampler(range(samples), seed=1, batch_size=batch if known else None)
    seen: Counter[int] = Counter()
    for size, batches in [*rounds, (rounds[-1][0], 10**6)]:
        sampler.reset()
        shares = []
        for rank in range(size):
            with worker(rank, size):
                shares.append(list(sampler))
        counts = {ceil(len(share) / batch) for share in shares}
        assert len(counts) == 1
        done = min(batches, counts.pop())
        for share in shares:
            seen.update(share[: done * batch])
        with worker(0, size):
            for index in range(done):
                sampler.record_batch(index, batch)
        assert sampler.processed_indices == set(seen)
    last = rounds[-1][0]
    assert max(seen.values(), default=1) == 1
    assert samples - len(seen) < last


@given(samples=st.integers(0, 500), workers=st.integers(1, 9), batch=st.integers(1, 50))
def test_with_the_batch_size_known_samples_are_left_out_only_where_a_batch_would_be_missing(
    samples: int, workers: int, batch: int
) -> None:
    given_out = usable(samples, workers, batch)
    if given_out < samples:
        assert ceil(samples // workers / batch) != ceil((samples // workers + 1) / batch)


def test_passes_differ_and_repeat_with_the_seed() -> None:
    with worker(0, 1):
        one, other = (ElasticSampler(range(50), seed=3) for _ in range(2))
        first = list(one)
        one.set_epoch(1)
        assert list(one) != first
        assert list(other) == first
        assert list(ElasticSampler(range(4), shuffle=False)) == [0, 1, 2, 3]


def test_a_saved_pass_is_taken_up_where_it_was() -> None:
    with worker(1, 2):
        sampler, other = ElasticSampler(range(20)), ElasticSampler(range(20))
        sampler.set_epoch(4)
        assert sampler.get_indices(0, 3) == list(sampler)[:3]
        sampler.record_batch(0, 3)
        sampler.record_indices([0])
        other.load_state_dict(sampler.state_dict())
        assert other.processed_indices == sampler.processed_indices
        assert len(other) == (20 - len(sampler.processed_indices)) // 2
        assert not set(other) & sampler.processed_indices
        with pytest.raises(ValueError, match="20 samples instead of 5"):
            ElasticSampler(range(5)).load_state_dict(sampler.state_dict())


@pytest.mark.usefixtures("alone")
def test_state_keeps_the_position_of_a_sampler() -> None:
    sampler = ElasticSampler(range(10))
    state = hvd.elastic.TorchState(sampler=sampler)
    sampler.record_batch(0, 4)
    state.commit()
    sampler.record_batch(1, 4)
    state.restore()
    assert len(sampler.processed_indices) == 4
    assert len(sampler) == 6
