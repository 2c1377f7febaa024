"""Choosing a source: every kind of data set finds its place, and mistakes are named with the loader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from elastane.train.data import Source, source_of
from elastane.train.data.mapped import MapSource
from elastane.train.data.stream import StreamSource
from elastane.train.errors import TrainError


class ByIndex:
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return index


class NoLength(Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return index


class Stream(IterableDataset[int]):
    """With a length, as many have."""

    def __len__(self) -> int:
        return 8

    def __iter__(self) -> Iterator[int]:
        return iter(range(8))


class Iterable:
    def __iter__(self) -> Iterator[int]:
        return iter(range(8))


class DatasetThatIterates(Dataset[int]):
    """Inherits a __getitem__ that only raises."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(8))


class Seekable(ByIndex):
    def iter_from(self, pass_index: int, position: int) -> Iterator[int]:
        return iter(range(position, 8))


@pytest.mark.parametrize(
    "dataset",
    [ByIndex(), list(range(8)), range(8), np.arange(8), torch.arange(8), TensorDataset(torch.arange(8))],
)
def test_what_has_items_and_a_length_is_read_by_index(dataset: Any) -> None:
    source = source_of(dataset)
    assert type(source) is MapSource
    assert source.length == 8


@pytest.mark.parametrize("dataset", [Stream(), Iterable(), DatasetThatIterates(), Seekable(), set(range(8))])
def test_what_can_only_be_iterated_over_is_a_stream(dataset: Any) -> None:
    source = source_of(dataset)
    assert type(source) is StreamSource
    assert source.fetch(0, 8).tolist() == list(range(8))


def test_settings_arrive() -> None:
    source: Source = source_of(
        ByIndex(), seed=1, shuffle=True, collate_fn=sorted, num_workers=1, seed_samples=True
    )
    assert source.fetch(0, 8) == list(range(8))
    source.close()
    assert source_of(ByIndex(), sampler=[4, 4, 2]).fetch(0, 3).tolist() == [4, 4, 2]
    shuffled = [source_of(ByIndex(), seed=seed, shuffle=True).fetch(0, 8).tolist() for seed in (1, 2)]
    assert shuffled[0] != shuffled[1] != list(range(8))


@pytest.mark.parametrize(
    ("dataset", "settings", "words"),
    [
        (Stream(), {"shuffle": True}, "iterable data set has its own order; leave out shuffle="),
        (Iterable(), {"sampler": [1]}, "iterable data set has its own order; leave out sampler="),
        (Stream(), {"num_workers": 2}, "is read in the worker itself; leave out num_workers="),
        (ByIndex(), {"num_workers": -1}, "num_workers must be 0 or more, not -1"),
        (ByIndex(), {"shuffle": True, "sampler": [1]}, "pass shuffle=True or sampler=, not both"),
        (ByIndex(), {"sampler": iter([1])}, "can be read only once"),
        ([], {}, "the data set list is empty"),
        (7, {}, "int is not a data set"),
        (None, {}, "NoneType is not a data set"),
        ("train.csv", {}, "str is not a data set"),
        (NoLength(), {}, "NoLength has __getitem__ but no __len__"),
        (ByIndex, {}, "pass a data set, not the class ByIndex"),
        (Stream, {}, "pass a data set, not the class Stream"),
        ((i for i in range(3)), {}, "is a generator, which can be read only once"),
    ],
)
def test_mistakes_are_named_with_the_loader(dataset: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(TrainError, match=f"loader 'valid': .*{words}"):
        source_of(dataset, name="valid", **settings)
