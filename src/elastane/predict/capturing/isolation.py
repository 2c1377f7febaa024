"""Isolates a capture: copies the model without its data, and restores random generators."""

from __future__ import annotations

import copy
import gc
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_map


@contextmanager
def untouched_randomness() -> Iterator[None]:
    """Restores the random generators of Python, NumPy and PyTorch afterwards."""
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(cpu)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)


@contextmanager
def no_collecting() -> Iterator[None]:
    """Disables garbage collection meanwhile: a capture makes many small objects and hardly any garbage."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def hollow_copy(model: torch.nn.Module, mode: FakeTensorMode) -> torch.nn.Module:
    """Copies a model around tensors that have shapes and no data; tied weights stay tied.

    Nothing of the model's parameters and buffers is read or copied, wherever they are.
    """
    memo: dict[int, Any] = {}
    for parameter in model.parameters():
        memo[id(parameter)] = _hollow(parameter, mode)
        memo[id(parameter.grad)] = None
    for buffer in model.buffers():
        memo[id(buffer)] = _hollow(buffer, mode)
    memo.pop(id(None), None)
    return copy.deepcopy(model, memo)


def real_copy(model: torch.nn.Module) -> torch.nn.Module:
    """Copies a model with its data and without gradients."""
    copied = copy.deepcopy(model)
    copied.zero_grad(set_to_none=True)
    return copied


def hollowed(batch: Any, mode: FakeTensorMode) -> Any:
    """Replaces all tensors of a batch by ones that have shapes only."""
    return tree_map(lambda each: _hollow(each, mode) if isinstance(each, torch.Tensor) else each, batch)


def _hollow(tensor: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    if isinstance(tensor, FakeTensor) and tensor.fake_mode is mode:
        return tensor
    with mode:
        empty = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu")
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(empty, requires_grad=tensor.requires_grad)
    return empty.requires_grad_(tensor.requires_grad)
