"""Lists tensors in the header of a message: names, types and shapes of what follows as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

_MOST_DIMENSIONS = 64


class Listed(NamedTuple):
    """A tensor of which the bytes follow."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def torch_dtype(self) -> torch.dtype:
        """The type of its numbers.

        Raises:
            ValueError: PyTorch has no such type, or there is no such shape.
        """
        dtype = getattr(torch, self.dtype, None)
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"there is no type {self.dtype:.40}")
        if len(self.shape) > _MOST_DIMENSIONS or any(size < 0 for size in self.shape):
            raise ValueError(f"a tensor cannot have the shape {self.shape!s:.80}")
        return dtype


def listed(tensors: Mapping[str, Tensor]) -> tuple[Listed, ...]:
    """The list of these tensors, in their order."""
    return tuple(
        Listed(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
        for name, tensor in tensors.items()
    )
