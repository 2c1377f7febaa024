"""Sums over workers whose numbers travel as bfloat16: half the bytes, additions in float32.

Each worker adds up one part of the vector, from what all others (and it itself) have rounded for the journey, and
sends the rounded sum to all.  So every worker ends with the same bits, on any transport; the order of additions is
that of the ranks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from elastane.train.reduce.contract import Collective

_WIDTH = torch.bfloat16.itemsize


def narrow_sum(group: Collective, vector: Tensor) -> None:
    """Sum over all members, in place."""
    part = -(-len(vector) // group.world)
    there = torch.zeros(part * group.world, dtype=torch.bfloat16, device=vector.device)
    there[: len(vector)].copy_(vector)
    came = torch.empty_like(there)
    splits = [part * _WIDTH] * group.world
    # As bytes: not every transport knows the type.
    group.all_to_all(came.view(torch.uint8), there.view(torch.uint8), splits, splits)
    first, *others = came.view(group.world, part)
    total = first.to(vector.dtype)
    for other in others:
        total.add_(other)
    group.all_gather(there.view(torch.uint8), total.to(torch.bfloat16).view(torch.uint8))
    vector.copy_(there[: len(vector)])
