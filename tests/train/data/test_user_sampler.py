"""Custom samplers: the same pass on every worker, and the training's random numbers left alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from elastane.train.data.user_sampler import SamplerOrder
from elastane.train.errors import TrainError


class ByPython:
    """Draws from the generators of Python and NumPy, and takes note of the pass."""

    epoch = -1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        yield self.epoch
        for _ in range(20):
            yield random.randrange(1000)
            yield int(np.random.randint(1000))


class Endless(Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        return count()


SAMPLERS: dict[str, Callable[[], Any]] = {
    "random": lambda: RandomSampler(range(40)),
    "random with its own generator": lambda: RandomSampler(range(40), generator=torch.Generator()),
    "subset": lambda: SubsetRandomSampler(range(10, 30)),
    "weighted": lambda: WeightedRandomSampler([0.1, 0.9, 3.0, 0.2, 0.3, 0.4], 100),
    "python": ByPython,
}


def whole(order: SamplerOrder, pass_index: int) -> list[int]:
    return order.indices(pass_index, 0, order.size(pass_index)).tolist()


@pytest.mark.parametrize("kind", SAMPLERS)
def test_a_worker_that_joins_late_sees_the_same_pass(kind: str) -> None:
    early, late = SamplerOrder(SAMPLERS[kind](), seed=5), SamplerOrder(SAMPLERS[kind](), seed=5)
    whole(early, 0)
    whole(early, 1)
    torch.rand(3), random.random(), np.random.rand()
    assert whole(early, 2) == whole(late, 2)


@pytest.mark.parametrize("kind", SAMPLERS)
def test_passes_and_seeds_differ(kind: str) -> None:
    a, b = SamplerOrder(SAMPLERS[kind](), seed=5), SamplerOrder(SAMPLERS[kind](), seed=6)
    assert whole(a, 0)[1:] != whole(a, 1)[1:]
    assert whole(a, 0)[1:] != whole(b, 0)[1:]


@pytest.mark.parametrize("kind", SAMPLERS)
def test_the_random_numbers_of_the_training_are_not_disturbed(kind: str) -> None:
    sampler = SAMPLERS[kind]()
    torch.default_generator.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    np.random.randn()  # leaves a second number in NumPy's pocket
    expected = (torch.rand(1).item(), random.random(), np.random.randn())
    torch.default_generator.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    np.random.randn()
    whole(SamplerOrder(sampler), 0)
    assert (torch.rand(1).item(), random.random(), np.random.randn()) == expected


def test_a_generator_of_the_sampler_is_put_back() -> None:
    sampler = RandomSampler(range(40), generator=torch.Generator().manual_seed(3))
    before = sampler.generator.get_state()
    whole(SamplerOrder(sampler), 4)
    assert torch.equal(sampler.generator.get_state(), before)


def test_a_pass_may_be_longer_or_shorter_than_the_data_and_repeat_indices() -> None:
    assert SamplerOrder([3, 3, 1]).size(0) == 3
    assert whole(SamplerOrder([3, 3, np.int32(1), torch.tensor(7)]), 0) == [3, 3, 1, 7]


def test_set_epoch_is_called_with_the_pass() -> None:
    assert whole(SamplerOrder(ByPython()), 7)[0] == 7


@pytest.mark.parametrize(
    "sampler", [BatchSampler(SequentialSampler(range(4)), 2, False), [[0, 1], [2, 3]]], ids=["torch's", "lists"]
)
def test_a_batch_sampler_is_refused_with_the_way_out(sampler: Any) -> None:
    with pytest.raises(
        TrainError, match=r"loader 'train': a batch sampler .* pass sampler= and batch_size= instead"
    ):
        SamplerOrder(sampler, name="train").size(0)


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        (
            DistributedSampler(range(8), num_replicas=2, rank=0),
            "DistributedSampler divides the data a second time",
        ),
        ((i for i in range(3)), "is a generator, which can be read only once"),
        (["a"], "must give whole numbers, not str 'a'"),
        ([0.5], "must give whole numbers, not float 0.5"),
        ([], "gives no index in pass 0"),
    ],
    ids=["distributed", "generator", "text", "fraction", "empty"],
)
def test_other_useless_samplers_are_refused_clearly(sampler: Any, words: str) -> None:
    with pytest.raises(TrainError, match=f"loader 'train': .*{words}"):
        SamplerOrder(sampler, name="train").size(0)


def test_an_endless_sampler_is_found_out() -> None:
    with pytest.raises(TrainError, match="over 1000 indices; is it endless"):
        SamplerOrder(Endless(), longest=1000).size(0)


def test_positions_outside_the_pass_are_never_cut_silently() -> None:
    with pytest.raises(ValueError, match="do not lie in a pass of 3"):
        SamplerOrder([1, 2, 3]).indices(0, 2, 2)
