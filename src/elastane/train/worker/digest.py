"""A cheap fingerprint of the parameters, so that replicas that drift apart are noticed."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

EVERY = 64
"""Steps between two fingerprints."""
PARTS = 16
"""A fingerprint covers every sixteenth tensor; sixteen in a row cover all."""

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


_FACTOR = 1_000_003
_KEPT = 2**48


def bit_sum(tensor: Tensor) -> Tensor:
    """The sum of a tensor's raw bits, as whole numbers of its element size; one number, where the tensor is."""
    flat = tensor.detach().contiguous().view(-1)
    if flat.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    return flat.view(_BITS[flat.element_size()]).sum(dtype=torch.int64)


def digest(tensors: Sequence[Tensor], turn: int | None = None) -> tuple[int, int]:
    """48 bits, in two halves, of all tensors, or of those whose ``turn`` it is."""
    chosen = _chosen(tensors, turn)
    if any(not tensor.is_cpu for tensor in chosen):
        high, low = digest_there(tensors, turn).tolist()
        return high, low
    value = 0
    for index, tensor in enumerate(chosen):
        value = (value * _FACTOR + int(bit_sum(tensor)) + index) % _KEPT
    return value >> 24, value & 0xFFFFFF


def digest_there(tensors: Sequence[Tensor], turn: int | None = None) -> Tensor:
    """The same two halves as whole numbers on the tensors' device, without a wait for it.

    Products wrap at 2⁶⁴, of which 2⁴⁸ is a divisor, so what is kept is the same as on the host.
    """
    chosen = _chosen(tensors, turn)
    if not chosen:
        return torch.zeros(2, dtype=torch.int64, device=tensors[0].device)
    sums = torch.stack([bit_sum(tensor) for tensor in chosen])
    value = (sums + torch.arange(len(chosen), device=sums.device)) * _weights(len(chosen), str(sums.device))
    kept = value.sum() & (_KEPT - 1)
    return torch.stack([kept >> 24, kept & 0xFFFFFF])


def _chosen(tensors: Sequence[Tensor], turn: int | None) -> Sequence[Tensor]:
    return tensors if turn is None else tensors[turn % PARTS :: PARTS]


@functools.lru_cache(maxsize=8)
def _weights(count: int, device: str) -> Tensor:
    powers = [pow(_FACTOR, count - 1 - index, _KEPT) for index in range(count)]
    return torch.tensor(powers, dtype=torch.int64, device=device)
