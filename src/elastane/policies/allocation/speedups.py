"""Speed-up tables: relative goodput of every job for every number of GPUs, on one node and on several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from elastane.models.goodput import GoodputModel, goodput_tables
from elastane.models.speed import FloatArray, SpeedModel

_CACHE: WeakKeyDictionary[GoodputModel, dict[tuple[int, str], RateTable]] = WeakKeyDictionary()
"""Models are immutable, so their tables are kept as long as they live; unchanged jobs cost nothing."""


@dataclass(frozen=True, slots=True)
class RateTable:
    """Goodput with 0, 1, … GPUs on one node (as many as a node has) and on several nodes."""

    one_node: FloatArray
    several: FloatArray

    @property
    def largest(self) -> int:
        """The largest number of GPUs the table answers for."""
        return len(self.several) - 1


def rate_tables(
    models: Sequence[SpeedModel], largest: Sequence[int], per_node: int, gpu_type: str = ""
) -> list[RateTable]:
    """Returns a table for each model, up to its own largest size; new ones are computed in few vectorised calls."""
    tables: list[RateTable | None] = []
    todo: dict[int, list[int]] = {}
    for i, (model, size) in enumerate(zip(models, largest, strict=True)):
        bucket = 1 << max(size - 1, 0).bit_length()  # powers of two, so that few different shapes occur
        found = None
        if isinstance(model, GoodputModel):
            found = _CACHE.get(model, {}).get((per_node, gpu_type))
        if found is not None and found.largest >= size:
            tables.append(found)
        else:
            tables.append(None)
            todo.setdefault(bucket, []).append(i)
    for bucket, rows in todo.items():
        for i, table in zip(rows, _compute([models[i] for i in rows], bucket, per_node, gpu_type), strict=True):
            tables[i] = table
            model = models[i]
            if isinstance(model, GoodputModel):
                _CACHE.setdefault(model, {})[(per_node, gpu_type)] = table
    return [table for table in tables if table is not None]


def _compute(models: list[SpeedModel], largest: int, per_node: int, gpu_type: str) -> list[RateTable]:
    local = np.arange(1, min(largest, per_node) + 1)
    wide = np.arange(2, largest + 1)
    nodes = np.concatenate([np.ones_like(local), np.full_like(wide, 2)])
    workers = np.concatenate([local, wide])
    fitted = [model for model in models if isinstance(model, GoodputModel)]
    if len(fitted) == len(models):
        rates = goodput_tables(fitted, nodes, workers, gpu_type).rate
    else:
        rates = np.stack([model.rates(nodes, workers, gpu_type) for model in models])
    zero = np.zeros((len(models), 1))
    one_node = np.hstack([zero, rates[:, : len(local)]])
    several = np.hstack([zero, zero, rates[:, len(local) :]])[:, : largest + 1]
    return [RateTable(one, more) for one, more in zip(one_node, several, strict=True)]
