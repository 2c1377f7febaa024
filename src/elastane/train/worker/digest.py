"""A cheap fingerprint of the parameters, so that replicas that drift apart are noticed.

What one fingerprint covers is bounded by bytes.  Parameters of up to ``AT_ONCE`` bytes are covered by each, larger ones
by several in a row, which cut them into equal windows, wherever one tensor ends and the next begins.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

EVERY = 16
"""Steps between two fingerprints."""
AT_ONCE = 1 << 22
"""Bytes that a fingerprint covers, unless that would take more than ``MOST`` of them."""
MOST = 64
"""So many in a row cover all, however large it is: a difference is found within 16 · 64 = 1,024 steps."""

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int32}
"""By bytes of an element.  Eight are two whole numbers, since a difference above 2⁴⁸ would not be kept."""


_FACTOR = 1_000_003
_KEPT = 2**48


def bit_sum(tensor: Tensor) -> Tensor:
    """The sum of a tensor's raw bits, as whole numbers of up to four bytes; one number, where the tensor is."""
    return _bits(tensor).sum(dtype=torch.int64)


def _bits(tensor: Tensor) -> Tensor:
    flat = tensor.detach().contiguous().view(-1)
    if flat.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    return flat.view(_BITS[flat.element_size()])


def digest(tensors: Sequence[Tensor], turn: int | None = None) -> tuple[int, int]:
    """48 bits, in two halves, of all tensors, or of the window whose ``turn`` it is."""
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


def windows(size: int) -> int:
    """How many fingerprints in a row cover parameters of ``size`` bytes.

    >>> windows(0), windows(AT_ONCE), windows(AT_ONCE + 1), windows(10**12)
    (1, 1, 2, 64)
    """
    return min(MOST, max(1, -(-size // AT_ONCE)))


def _chosen(tensors: Sequence[Tensor], turn: int | None) -> Sequence[Tensor]:
    """The pieces of the tensors that lie in a window; an element belongs to the one in which it begins."""
    size = sum(tensor.nbytes for tensor in tensors)
    count = windows(size)
    if turn is None or count == 1:
        return tensors
    number = turn % count
    start, end = size * number // count, size * (number + 1) // count
    chosen, at = [], 0
    for tensor in tensors:
        first, last = max(start, at) - at, min(end, at + tensor.nbytes) - at
        at += tensor.nbytes
        if first < last:
            bits = _bits(tensor)
            width = bits.element_size()
            chosen.append(bits[-(-first // width) : -(-last // width)])
    return chosen


@functools.lru_cache(maxsize=MOST)
def _weights(count: int, device: str) -> Tensor:
    powers = [pow(_FACTOR, count - 1 - index, _KEPT) for index in range(count)]
    return torch.tensor(powers, dtype=torch.int64, device=device)
