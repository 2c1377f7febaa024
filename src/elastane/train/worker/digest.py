"""A cheap fingerprint of the parameters, so that replicas that drift apart are noticed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

EVERY = 64
"""Steps between two fingerprints."""
PARTS = 16
"""A fingerprint covers every sixteenth tensor; sixteen in a row cover all."""

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bit_sum(tensor: Tensor) -> int:
    """The sum of a tensor's raw bits, as whole numbers of its element size."""
    flat = tensor.detach().contiguous().view(-1)
    if flat.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    return int(flat.view(_BITS[flat.element_size()]).sum(dtype=torch.int64))


def digest(tensors: Sequence[Tensor], turn: int | None = None) -> tuple[int, int]:
    """48 bits, in two halves, of all tensors, or of those whose ``turn`` it is."""
    chosen = tensors if turn is None else tensors[turn % PARTS :: PARTS]
    value = 0
    for index, tensor in enumerate(chosen):
        value = (value * 1_000_003 + bit_sum(tensor) + index) % 2**48
    return value >> 24, value & 0xFFFFFF
