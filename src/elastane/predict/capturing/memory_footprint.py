"""Counts the bytes that a step holds: parameters, gradients, optimizer state, and activations for backward."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from elastane.predict.operators import Memory


class MemoryFootprint:
    """Counts the bytes of the tensors that a step keeps in memory, each storage once."""

    def __init__(self, parameters: Iterable[torch.Tensor], buffers: Iterable[torch.Tensor] = ()) -> None:
        self._parameters = list(parameters)
        lasting = (*self._parameters, *buffers)
        self._own = {_storage(each) for each in lasting}
        self._static = sum(_bytes(each) for each in lasting)
        self._saved: dict[int, torch.UntypedStorage] = {}

    def watching(self) -> Any:
        """Returns a context in which tensors saved for backward are counted, once per storage."""

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            if (key := _storage(tensor)) not in self._own:
                # The storage is kept so that no other can take its key.
                self._saved.setdefault(key, tensor.untyped_storage())
            return tensor

        return torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)

    def memory(self, optimizer: torch.optim.Optimizer | None, largest_output: int) -> Memory:
        """Returns the memory of a step, called after it with its optimizer."""
        state = optimizer.state.values() if optimizer is not None else ()
        tensors = [each for values in state for each in values.values() if isinstance(each, torch.Tensor)]
        return Memory(
            parameters=self._static,
            gradients=sum(_bytes(each) for each in self._parameters if each.requires_grad),
            optimizer=sum(_bytes(each) for each in tensors),
            activations=sum(each.nbytes() for each in self._saved.values()),
            largest_output=largest_output,
        )


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
