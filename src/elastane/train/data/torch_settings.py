"""Settings that a script gives torch's ``DataLoader`` are kept for the job's loader, harmless, or refused in a line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    default_collate,
)

from elastane.suggest import did_you_mean
from elastane.train.errors import TrainError

HARMLESS: Mapping[str, Any] = {
    "pin_memory": False,
    "pin_memory_device": "",
    "persistent_workers": False,
    "prefetch_factor": None,
    "timeout": 0,
    "generator": None,
    "multiprocessing_context": None,
    "in_order": True,
}
"""Accepted without effect, with torch's defaults: models are on CPUs, loader processes live as long as the loader and
read ahead by themselves, a dead one is noticed at once, and the order of a pass follows ``et.init(seed=…)``."""


@dataclass(frozen=True, slots=True)
class LoaderSettings:
    """One loader as the script described it, under the names that torch uses."""

    dataset: Any
    batch_size: int
    shuffle: bool | None = None
    sampler: Iterable[Any] | None = None
    collate_fn: Callable[[list[Any]], Any] | None = None
    num_workers: int = 0
    drop_last: bool = False
    others: Mapping[str, Any] = field(default_factory=dict)

    def attribute(self, name: str) -> Any:
        """A ``DataLoader``'s attribute of this name; AttributeError where there is none."""
        if name in HARMLESS:
            return self.others.get(name, HARMLESS[name])
        if name not in _ATTRIBUTES:
            raise AttributeError(f"a job's loader has no attribute {name!r}")
        return getattr(self, name)


_ATTRIBUTES = {each.name for each in fields(LoaderSettings)} - {"shuffle", "others"}


def loader_settings(
    name: str, dataset: Any, batch_size: int | None, others: Mapping[str, Any], **said: Any
) -> LoaderSettings:
    """The settings of the loader ``name``; ``said`` are those the job's loader has itself, None where not given."""
    said = {key: value for key, value in said.items() if value is not None}
    others = dict(others)
    batch_sampler = others.pop("batch_sampler", None)
    _check_names(name, others)
    if isinstance(dataset, DataLoader):
        return _taken_over(name, dataset, batch_size, {**said, **others, **_given(batch_sampler)})
    if batch_sampler is not None:
        if batch_size is not None or "sampler" in said or "shuffle" in said or "drop_last" in others:
            raise TrainError(
                f"loader '{name}': batch_sampler= says all of batch_size=, shuffle=, sampler= and drop_last=; "
                "leave those out"
            )
        batch_size, found = _unpacked(name, batch_sampler)
        said, others = {**said, **found}, {**others, "drop_last": batch_sampler.drop_last}
    if batch_size is None:
        raise TrainError(f"loader '{name}': batch_size is missing; it is the whole batch, over all workers")
    _refuse_worker_init(name, others, said.get("num_workers", 0))
    drop_last = bool(others.pop("drop_last", False))
    return LoaderSettings(dataset, batch_size, **said, drop_last=drop_last, others=others)


def _given(batch_sampler: Any) -> dict[str, Any]:
    return {} if batch_sampler is None else {"batch_sampler": batch_sampler}


def _check_names(name: str, others: Mapping[str, Any]) -> None:
    known = [*HARMLESS, "batch_sampler", "drop_last", "worker_init_fn"]
    for each in others:
        if each not in known:
            raise TrainError(f"loader '{name}': there is no setting {each!r}{did_you_mean(each, known)}")


def _refuse_worker_init(name: str, others: dict[str, Any], num_workers: int) -> None:
    """Without loader processes torch calls it never, and neither do we."""
    if others.pop("worker_init_fn", None) is not None and num_workers:
        raise TrainError(
            f"loader '{name}': worker_init_fn= is not called, since any process may read any sample; "
            "open files in __getitem__, and draw random numbers from et.sample_generator()"
        )


def _taken_over(name: str, loader: DataLoader[Any], batch_size: int | None, said: Any) -> LoaderSettings:
    """A ``DataLoader`` of the script's, which is only asked what it was made of."""
    if said:
        raise TrainError(
            f"loader '{name}': {next(iter(said))}= was given beside a DataLoader; say it to the DataLoader"
        )
    stream = isinstance(loader.dataset, IterableDataset)
    if loader.batch_size is None and (stream or not isinstance(loader.batch_sampler, BatchSampler)):
        raise TrainError(
            f"loader '{name}': a DataLoader that makes no batches cannot be divided; give it a batch_size"
        )
    size, order = (loader.batch_size, {}) if stream else _unpacked(name, loader.batch_sampler)
    others = {key: getattr(loader, key) for key in HARMLESS if hasattr(loader, key)}
    others["worker_init_fn"] = loader.worker_init_fn
    _refuse_worker_init(name, others, loader.num_workers)
    settings = LoaderSettings(
        loader.dataset,
        batch_size or int(size or 0),
        collate_fn=None if loader.collate_fn is default_collate else loader.collate_fn,
        num_workers=loader.num_workers,
        drop_last=loader.drop_last if stream else loader.batch_sampler.drop_last,  # type: ignore[union-attr]
        others=others,
    )
    return replace(settings, **order)


def _unpacked(name: str, batches: Any) -> tuple[int, dict[str, Any]]:
    """Batch size and order of torch's own ``BatchSampler``; another one decides by itself what goes together."""
    if type(batches) is not BatchSampler:
        raise TrainError(
            f"loader '{name}': a batch sampler fixes who gets what; pass sampler= and batch_size= instead"
        )
    sampler = batches.sampler
    if type(sampler) is SequentialSampler:
        return batches.batch_size, {"shuffle": False}
    if type(sampler) is RandomSampler and not sampler.replacement and sampler._num_samples is None:
        return batches.batch_size, {"shuffle": True}
    return batches.batch_size, {"sampler": sampler}
