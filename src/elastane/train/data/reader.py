"""Reads chosen samples of a map-style data set and collates them; knows nothing of processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Subset, TensorDataset

from elastane.train.data.collate import Collate, Collator
from elastane.train.data.sample_rng import sample_rng
from elastane.train.errors import TrainError


class Abandoned(Exception):
    """Nobody wants the batch any more that was being read."""


def never() -> bool:
    """The batch stays wanted."""
    return False


class Reader:
    """A data set, how its samples become a batch, and where their random numbers come from.

    With ``seed_samples`` the global generators are seeded before each sample by (seed, pass, index).
    """

    def __init__(
        self,
        dataset: Any,
        collate_fn: Collate | None = None,
        *,
        seed: int = 0,
        seed_samples: bool = False,
        name: str = "data",
    ) -> None:
        self.seed = seed
        self.name = name
        self._dataset = dataset
        self._collator = Collator(collate_fn, seed, seed_samples, name)
        self._seed_samples = seed_samples
        self._tensors = _tensors_behind(dataset) if collate_fn is None else None
        self._many = None if seed_samples else getattr(dataset, "__getitems__", None)

    def read(
        self,
        pass_index: int,
        start: int,
        indices: NDArray[np.int64],
        abandoned: Callable[[], bool] = never,
    ) -> Any:
        """The samples with these indices, which stand at ``start`` and after it, as one batch."""
        if self._tensors is not None and (batch := self._selected(indices)) is not None:
            return batch
        wanted = indices.tolist()
        with sample_rng(self.seed, pass_index, self._seed_samples) as begin:
            if self._many is not None:
                samples = self._read_together(wanted)
            else:
                samples = self._read_singly(wanted, begin, abandoned)
        return self._collator.collate(samples, pass_index, start)

    def _selected(self, indices: NDArray[np.int64]) -> list[Tensor] | None:
        """Rows of all tensors at once; None leaves it to the slow way, which has the words for an error."""
        rows, base = torch.from_numpy(indices), self._dataset
        try:
            while type(base) is Subset:
                rows, base = torch.tensor([base.indices[row] for row in rows.tolist()]), base.dataset
            return [tensor.index_select(0, rows) for tensor in self._tensors or ()]
        except (IndexError, RuntimeError, TypeError, ValueError):
            return None

    def _read_singly(
        self, indices: Sequence[int], begin: Callable[[int], None], abandoned: Callable[[], bool]
    ) -> list[Any]:
        samples = []
        for index in indices:
            if abandoned():
                raise Abandoned
            begin(index)
            try:
                samples.append(self._dataset[index])
            except Exception as error:
                raise self._failed(f"the data set failed at index {index}", error) from error
        return samples

    def _read_together(self, indices: list[int]) -> list[Any]:
        assert self._many is not None
        try:
            return list(self._many(indices))
        except Exception as error:
            where = f"the data set failed in __getitems__ for index {_listed(indices)}"
            raise self._failed(where, error) from error

    def _failed(self, what: str, error: Exception) -> TrainError:
        return TrainError(f"loader '{self.name}': {what}: {type(error).__name__}: {error}")


def _tensors_behind(dataset: Any) -> tuple[Tensor, ...] | None:
    """The tensors whose rows are exactly what collating the samples of this data set would give."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    if type(dataset) is not TensorDataset:
        return None
    return dataset.tensors if all(_plain(tensor) for tensor in dataset.tensors) else None


def _plain(tensor: Tensor) -> bool:
    # On a device an index outside the tensor would take the whole process down instead of raising.
    return (
        type(tensor) is Tensor
        and tensor.layout == torch.strided
        and tensor.device.type == "cpu"
        and tensor.is_contiguous()
        and not tensor.requires_grad
    )


def _listed(indices: Sequence[int]) -> str:
    shown = ", ".join(str(index) for index in indices[:8])
    return shown if len(indices) <= 8 else f"{shown}, … ({len(indices)} in all)"
