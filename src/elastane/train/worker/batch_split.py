"""The split cuts a step's samples into units and says who computes which: pure arithmetic, the same everywhere."""

from __future__ import annotations

from enum import StrEnum

from elastane.cluster import Batch
from elastane.train.data.blocks import split
from elastane.train.reduce.contract import Shares


class Mode(StrEnum):
    """What stays the same when the number of workers changes."""

    FIXED = "fixed"
    """The global batch, and so the training, up to rounding."""
    ADAPTIVE = "adaptive"
    """Progress per sample is traded for speed: batch and learning rate follow the workers (Pollux)."""
    CONSISTENT = "consistent"
    """Every bit (EasyScale): a fixed number of virtual ranks, whoever computes them."""


def contiguous_owners(units: int, world: int) -> tuple[int, ...]:
    """Units in order, as evenly as possible."""
    return tuple(unit * world // units for unit in range(units)) if world <= units else tuple(range(units))


def consistent_shares(samples: int, virtual: int, world: int) -> Shares:
    """One unit per virtual rank."""
    return Shares(split(samples, virtual), contiguous_owners(virtual, world))


def divided_shares(samples: int, batch: Batch, world: int) -> Shares:
    """Each worker's part in as many equal passes as the batch says."""
    passes = batch.accumulation + 1
    return Shares(split(samples, world * passes), contiguous_owners(world * passes, world))
