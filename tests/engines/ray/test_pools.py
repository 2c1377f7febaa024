"""What a pool is, from the words of ``--pool``."""

from __future__ import annotations

import pytest

from elastane.engines.ray.messages import PoolWish
from elastane.engines.ray.pools import PoolSpec, parse_pool
from elastane.errors import ElastaneError


def test_a_pool_is_read_whole() -> None:
    text = "a100:gpus=2,cpus=8,accelerator=a100-80g,least=1,most=4,price=3.5,label.ray.io/market-type=spot"
    spec = parse_pool(text)
    assert spec == PoolSpec("a100", 2, 8, "a100-80g", 1, 4, 3.5, {"ray.io/market-type": "spot"})
    assert spec.wish(3) == PoolWish(3, 2.0, 8.0, {"ray.io/market-type": "spot"})
    pool = spec.pool(2)
    assert (pool.node.gpus, pool.node.gpu_type, pool.now, pool.least, pool.most) == (2, "a100-80g", 2, 1, 4)


def test_a_pool_without_gpus_offers_its_cores() -> None:
    pool = parse_pool("small:cpus=16").pool(0)
    assert (pool.node.gpus, pool.node.gpu_type) == (16, "cpu")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Big", "a pool's name"),
        ("", "a pool's name"),
        ("p:gpu=2", "did you mean 'gpus'"),
        ("p:gpus", "is no KEY=VALUE"),
        ("p:gpus=two", "gpus must be a whole number from 0 to 1024, not 'two'"),
        ("p:most=-1", "most must be a whole number"),
        ("p:price=nan", "price must be an amount per hour"),
        ("p:least=3,most=2", "least=3 is more than most=2"),
    ],
)
def test_a_mistake_is_named(text: str, problem: str) -> None:
    with pytest.raises(ElastaneError, match=problem):
        parse_pool(text)
