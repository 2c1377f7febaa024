"""Map-style sources: one stream of batches whatever the processes, the cut, or what was expected."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import Dataset, TensorDataset, WeightedRandomSampler

from elastane.train.data import sample_generator
from elastane.train.data.blocks import unit_spans
from elastane.train.data.mapped import MapSource
from elastane.train.data.order import Order
from elastane.train.data.user_sampler import SamplerOrder
from elastane.train.errors import TrainError

LENGTH = 37


class Noisy(Dataset[Any]):
    """Augments by the generator of the sample."""

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> tuple[int, float]:
        return index, torch.rand(1, generator=sample_generator()).item()


class GloballyNoisy(Noisy):
    """Augments as unmodified code does: by whatever global generator is at hand."""

    def __getitem__(self, index: int) -> tuple[int, float]:
        return index, torch.rand(1).item() + random.random() + float(np.random.rand())


Make = Callable[..., MapSource]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[MapSource] = []

    def source(dataset: Any = None, **settings: Any) -> MapSource:
        made.append(MapSource(dataset or Noisy(), Order(LENGTH, 3, shuffle=True), **settings))
        return made[-1]

    yield source
    for each in made:
        each.close()


def stream(source: MapSource, pass_index: int, counts: list[int], ahead: int = 3) -> list[tuple[int, float]]:
    source.open(pass_index)
    spans = unit_spans(0, counts)
    samples: list[tuple[int, float]] = []
    for number, span in enumerate(spans):
        source.expect(spans[number : number + ahead])
        indices, noise = source.fetch(*span)
        samples += zip(indices.tolist(), noise.tolist(), strict=True)
    return samples


CUTS = [[LENGTH], [10, 10, 10, 7], [1] * LENGTH, [5, 1, 20, 11]]


@pytest.mark.parametrize(("kind", "seed_samples"), [(Noisy, False), (GloballyNoisy, True)])
@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_the_stream_is_the_same_for_any_processes_and_any_cut(
    kind: type[Noisy], seed_samples: bool, num_workers: int, make: Make
) -> None:
    settings = {"seed": 9, "seed_samples": seed_samples}
    expected = [stream(make(kind(), **settings), p, [LENGTH]) for p in (0, 1)]
    assert sorted(index for index, _ in expected[0]) == list(range(LENGTH))
    assert len({noise for samples in expected for _, noise in samples}) == 2 * LENGTH
    source = make(kind(), num_workers=num_workers, **settings)
    for cut in CUTS:
        assert [stream(source, p, cut) for p in (0, 1)] == expected


def test_without_seeded_samples_the_control_differs(make: Make) -> None:
    a, b = (stream(make(GloballyNoisy(), num_workers=n), 0, [LENGTH]) for n in (0, 1))
    assert [index for index, _ in a] == [index for index, _ in b]
    assert [noise for _, noise in a] != [noise for _, noise in b]


@pytest.mark.parametrize("draw", [lambda: torch.rand(1).item(), np.random.rand], ids=["torch", "numpy"])
def test_loader_processes_never_draw_the_same_numbers_twice(draw: Callable[[], float], make: Make) -> None:
    class ByOneGenerator(Noisy):
        def __getitem__(self, index: int) -> tuple[int, float]:
            return index, draw()

    samples = stream(make(ByOneGenerator(), num_workers=2), 0, [6, 6, 6, 6, 6, 7], ahead=6)
    assert len({noise for _, noise in samples}) == LENGTH


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_random_numbers_of_the_training_are_not_disturbed(num_workers: int, make: Make) -> None:
    torch.default_generator.manual_seed(4)
    expected = torch.rand(1)
    torch.default_generator.manual_seed(4)
    stream(make(GloballyNoisy(), num_workers=num_workers, seed_samples=True), 0, [20, 17])
    assert torch.equal(torch.rand(1), expected)


steps = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.lists(st.tuples(st.integers(0, LENGTH), st.integers(0, 9)), max_size=5),
        st.integers(0, LENGTH - 1),
        st.integers(1, 9),
    ),
    min_size=1,
    max_size=12,
)


def clipped(start: int, count: int) -> tuple[int, int]:
    return start, min(count, LENGTH - start)


@pytest.fixture(scope="module")
def long_lived() -> Iterator[MapSource]:
    source = MapSource(Noisy(), Order(LENGTH, 3, shuffle=True), num_workers=2)
    yield source
    source.close()


@given(steps)
def test_wrong_expectations_never_change_what_is_fetched(long_lived: MapSource, steps: list[Any]) -> None:
    plain = MapSource(Noisy(), Order(LENGTH, 3, shuffle=True))
    for pass_index, expected, start, count in steps:
        plain.open(pass_index)
        long_lived.open(pass_index)
        long_lived.expect(expected)  # some beyond the end, some empty
        for a, b in zip(
            long_lived.fetch(*clipped(start, count)), plain.fetch(*clipped(start, count)), strict=True
        ):
            assert torch.equal(a, b)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_large_batches_arrive_whole(num_workers: int) -> None:
    dataset = TensorDataset(torch.randn(64, 1000), torch.arange(64))
    source = MapSource(dataset, Order(64), num_workers=num_workers)
    rows, numbers = source.fetch(8, 48)
    source.close()
    assert torch.equal(rows, dataset.tensors[0][8:56])
    assert numbers.tolist() == list(range(8, 56))


@given(st.integers(0, 60), st.integers(0, 60))
def test_what_is_available_ends_with_the_pass(start: int, count: int) -> None:
    source = MapSource(list(range(LENGTH)), Order(LENGTH))
    assert source.length == LENGTH
    assert source.available(start, count) == len(range(start, min(start + count, LENGTH)))


def test_the_length_is_that_of_the_sampler() -> None:
    source = MapSource([0.0] * 4, SamplerOrder(WeightedRandomSampler([1.0] * 4, 11)))
    assert source.length == 11
    assert source.available(8, 5) == 3
    assert len(source.fetch(8, 3)) == 3


@pytest.mark.parametrize("num_workers", [0, 1])
def test_positions_outside_the_pass_are_never_cut_silently(num_workers: int, make: Make) -> None:
    with pytest.raises(ValueError, match="do not lie in a pass"):
        make(num_workers=num_workers).fetch(30, 10)


class Broken(Noisy):
    def __getitem__(self, index: int) -> Any:
        if index == 5:
            raise KeyError("no such file")
        return index


@pytest.mark.parametrize("num_workers", [0, 1])
def test_an_error_of_the_data_set_names_index_and_cause_and_can_be_survived(num_workers: int) -> None:
    source = MapSource(Broken(), Order(LENGTH), num_workers=num_workers, name="train")
    source.expect([(4, 3), (0, 4)])
    with pytest.raises(
        TrainError, match="loader 'train': the data set failed at index 5: KeyError: 'no such file'"
    ):
        source.fetch(4, 3)
    assert source.fetch(0, 4).tolist() == [0, 1, 2, 3]
    source.close()
