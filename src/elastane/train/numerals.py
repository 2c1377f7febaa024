"""Tensors of any kind as floating-point numbers of another kind, and back without losing a bit.

Buffers travel behind the gradients, in the gradients' type: a ``float64`` buffer, a large counter or a table of
complex numbers must come out as it went in.
"""

from __future__ import annotations

import torch
from torch import Tensor

_DIGIT = 2**22
"""Whole numbers go as digits of this size, which every float holds exactly."""
_INT_DIGITS = _FLOAT_PARTS = 3


def size_in_numbers(tensor: Tensor) -> int:
    """How many numbers it takes, in the worst case."""
    if tensor.is_complex():
        return size_in_numbers(torch.view_as_real(tensor))
    whole = not tensor.is_floating_point()
    return tensor.numel() * (_INT_DIGITS if whole else _FLOAT_PARTS if tensor.dtype is torch.float64 else 1)


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
    parts = [flat.to(dtype)]
    finite = parts[0].isfinite()
    for _ in range(_FLOAT_PARTS - 1):
        rest = flat - sum(part.to(torch.float64) for part in parts)
        parts.append(torch.where(finite, rest, 0.0).to(dtype))
    return torch.cat(parts)


def from_numbers(numbers: Tensor, like: Tensor) -> Tensor:
    """The tensor that ``numbers_of`` took, with the shape and type of ``like``."""
    if like.is_complex():
        return torch.view_as_complex(from_numbers(numbers, torch.view_as_real(like)).clone())
    if not like.is_floating_point():
        high, middle, low = numbers.round().to(torch.int64).view(_INT_DIGITS, -1).unbind()
        whole: Tensor = high * (_DIGIT * _DIGIT) + middle * _DIGIT + low
        return whole.to(like.dtype).view(like.shape)
    if like.dtype is torch.float64:
        high, middle, low = numbers.to(torch.float64).view(_FLOAT_PARTS, -1).unbind()
        exact: Tensor = high + middle + low
        return exact.view(like.shape)
    return numbers.to(like.dtype).view(like.shape)
