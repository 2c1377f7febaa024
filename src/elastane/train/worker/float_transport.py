"""Tensors of any kind as floating-point numbers of another kind, and back without losing a bit.

Buffers travel behind the gradients, in the gradients' type: a ``float64`` buffer, a large counter or a table of
complex numbers must come out as it went in.
"""

from __future__ import annotations

import torch
from torch import Tensor

_DIGIT = 2**22
"""Whole numbers go as digits of this size, which every float holds exactly."""
_DIGITS = 3
"""Of a whole number of 64 bits, or of the bits of a double."""


def size_in_numbers(tensor: Tensor) -> int:
    """How many numbers it takes, in the worst case."""
    if tensor.is_complex():
        return size_in_numbers(torch.view_as_real(tensor))
    exact = not tensor.is_floating_point() or tensor.dtype is torch.float64
    return tensor.numel() * (_DIGITS if exact else 1)


def numbers_of(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """The tensor as one row of numbers."""
    flat = torch.view_as_real(tensor).reshape(-1) if tensor.is_complex() else tensor.reshape(-1)
    if not flat.is_floating_point():
        whole = flat.to(torch.int64)
        high = torch.div(whole, _DIGIT * _DIGIT, rounding_mode="floor")
        rest = whole - high * (_DIGIT * _DIGIT)
        return torch.cat([high, rest // _DIGIT, rest % _DIGIT]).to(dtype)
    if flat.dtype is not torch.float64:
        return flat.to(dtype)
    return numbers_of(flat.view(torch.int64), dtype)


def from_numbers(numbers: Tensor, like: Tensor) -> Tensor:
    """The tensor that ``numbers_of`` took, with the shape and type of ``like``."""
    if like.is_complex():
        return torch.view_as_complex(from_numbers(numbers, torch.view_as_real(like)).clone())
    if not like.is_floating_point():
        high, middle, low = numbers.round().to(torch.int64).view(_DIGITS, -1).unbind()
        whole: Tensor = high * (_DIGIT * _DIGIT) + middle * _DIGIT + low
        return whole.to(like.dtype).view(like.shape)
    if like.dtype is torch.float64:
        bits = from_numbers(numbers, torch.empty(like.numel(), dtype=torch.int64))
        return bits.view(torch.float64).view(like.shape)
    return numbers.to(like.dtype).view(like.shape)
