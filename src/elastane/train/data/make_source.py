"""A source is made of a data set, or an error that says what is wrong with a data set that makes none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.utils.data import IterableDataset

from elastane.train.data.collate import Collate
from elastane.train.data.contract import Source
from elastane.train.data.mapped import MapSource
from elastane.train.data.order import Order
from elastane.train.data.seek import SeekableStream
from elastane.train.data.stream import StreamSource
from elastane.train.data.user_sampler import SamplerOrder
from elastane.train.errors import TrainError


def source_of(
    dataset: Any,
    *,
    seed: int = 0,
    shuffle: bool = False,
    sampler: Iterable[Any] | None = None,
    collate_fn: Collate | None = None,
    num_workers: int = 0,
    seed_samples: bool = False,
    name: str = "data",
) -> Source:
    """The source for a map-style or iterable data set, as the loader ``name`` describes it."""
    if num_workers < 0:
        raise TrainError(f"loader '{name}': num_workers must be 0 or more, not {num_workers}")
    if _is_stream(dataset):
        _refuse_for_streams(name, shuffle, sampler, num_workers)
        return StreamSource(dataset, collate_fn, seed=seed, seed_samples=seed_samples, name=name)
    length = _length_of(dataset, name)
    if sampler is None:
        order: Order | SamplerOrder = Order(length, seed, shuffle)
    elif shuffle:
        raise TrainError(
            f"loader '{name}': pass shuffle=True or sampler=, not both; a sampler is an order already"
        )
    else:
        order = SamplerOrder(sampler, seed, name)
    return MapSource(
        dataset,
        order,
        collate_fn,
        num_workers=num_workers,
        seed=seed,
        seed_samples=seed_samples,
        name=name,
    )


def _is_stream(dataset: Any) -> bool:
    if isinstance(dataset, IterableDataset | SeekableStream):
        return True
    by_index = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    return hasattr(dataset, "__iter__") and not by_index


def _refuse_for_streams(name: str, shuffle: bool, sampler: Iterable[Any] | None, num_workers: int) -> None:
    for setting, given in (
        ("shuffle", shuffle),
        ("sampler", sampler is not None),
        ("num_workers", num_workers),
    ):
        if given:
            why = "is read in the worker itself" if setting == "num_workers" else "has its own order"
            raise TrainError(f"loader '{name}': an iterable data set {why}; leave out {setting}=")


def _length_of(dataset: Any, name: str) -> int:
    kind = type(dataset).__name__
    if isinstance(dataset, type):
        raise TrainError(f"loader '{name}': pass a data set, not the class {dataset.__name__}")
    if isinstance(dataset, str | bytes) or not hasattr(dataset, "__getitem__"):
        raise TrainError(
            f"loader '{name}': {kind} is not a data set; it needs __getitem__ and __len__, or __iter__"
        )
    if not hasattr(dataset, "__len__"):
        raise TrainError(f"loader '{name}': {kind} has __getitem__ but no __len__")
    if not len(dataset):
        raise TrainError(f"loader '{name}': the data set {kind} is empty")
    return len(dataset)
