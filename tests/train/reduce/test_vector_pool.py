"""Vectors are used again as long as they are large enough."""

from __future__ import annotations

from elastane.train.reduce.vector_pool import VectorPool
from train.reduce.crew import Toy


def test_a_vector_is_used_again() -> None:
    pool = VectorPool(Toy([(3,)]).layout, limit=2)
    vector = pool.take(4)
    pool.give(vector)
    assert pool.take(0) is vector


def test_room_grows_with_what_is_asked_for() -> None:
    pool = VectorPool(Toy([(3,)]).layout, limit=2)
    small = pool.take(0)
    pool.take(5)
    pool.give(small)
    assert len(pool.take(0).tail) == 5


def test_the_pool_holds_no_more_than_its_limit() -> None:
    pool = VectorPool(Toy([(3,)]).layout, limit=1)
    first, second = pool.take(0), pool.take(0)
    pool.give(first)
    pool.give(second)
    assert pool.take(0) is first
    assert pool.take(0) is not second
