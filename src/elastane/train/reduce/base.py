"""The base of all reducers begins a unit without gradients, and carries a tail."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from elastane.train.reduce.contract import Ahead, Collective, Shares
from elastane.train.reduce.gradients import GradientLayout, GradientVector

Observe = Callable[[Tensor], None]
"""Shown the raw gradient of a finished unit, as one flat vector."""


class BaseReducer:
    """The common part of reducers."""

    def __init__(self, layout: GradientLayout, observe: Observe | None = None) -> None:
        self.observe = observe
        """May be taken away while nothing is measured; that saves a copy per unit."""
        self._layout = layout
        self._shares = Shares((), ())
        self._rank = 0
        self._where = layout.device.as_torch()
        self._tail = self._zeros(0)

    def watch(self, observe: Observe | None) -> None:
        """From now on show finished units to ``observe``, or to nobody."""
        self.observe = observe

    def _take_shares(self, shares: Shares, rank: int) -> None:
        if not shares.total or len(shares.counts) != len(shares.owner):
            raise ValueError(f"a step needs samples and an owner for every unit, not {shares}")
        self._shares, self._rank = shares, rank

    def start(self, unit: int) -> None:
        """This unit's backward comes next."""
        if self._shares.owner[unit] != self._rank:
            raise RuntimeError(f"unit {unit} belongs to rank {self._shares.owner[unit]}, not {self._rank}")
        self._layout.clear()

    # Reducers that send nothing ahead.

    @property
    def steady(self) -> bool:
        """Nothing is sent ahead."""
        return False

    @property
    def stale(self) -> bool:
        """Nothing was sent ahead."""
        return False

    def go_ahead(self, unit: int, ahead: Ahead) -> None:
        """All gradients of a step are sent behind its last unit."""

    def body_over(self) -> None:
        """No hook of ours is open."""

    def complete(self, group: Collective) -> None:
        """No order has been begun."""

    def repeat(self, group: Collective) -> GradientVector:
        """Nobody asks for it."""
        raise NotImplementedError

    def believed(self) -> None:
        """Nothing is kept for a repetition."""

    def tail_of(self, size: int) -> Tensor:
        """Zeros beside the gradients, to be filled in before ``reduce``."""
        self._tail = self._zeros(size)
        return self._tail

    def _zeros(self, size: int) -> Tensor:
        return torch.zeros(size, dtype=self._layout.dtype, device=self._where)

    def _write_tail(self, vector: GradientVector, size: int) -> None:
        vector.tail[:size].copy_(self._tail[:size])
