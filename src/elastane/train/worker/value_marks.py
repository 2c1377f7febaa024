"""Cheap marks of parameters' values: whether a script has changed them between two steps, past the optimizer.

A newcomer that follows repeats optimizer steps and sees nothing else.  In-place operations and ``p.data = …`` show in
a tensor's version or address; ``p.data.clamp_()`` shows in neither, so a few values of each are compared, too.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

_SAMPLES = 256


class ValueMarks:
    """Parameters as they were at one moment."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self._marks = [(p, _Mark(p)) for p in parameters]

    @property
    def changed(self) -> bool:
        """Whether any of them has been written to since."""
        return any(not mark.fits(p) for p, mark in self._marks)


class _Mark:
    """One parameter: where it lies, how often it was written to, some of its values."""

    def __init__(self, parameter: nn.Parameter) -> None:
        self._address, self._version = parameter.data_ptr(), parameter._version
        self._values = _some(parameter).clone()

    def fits(self, parameter: nn.Parameter) -> bool:
        """Whether nothing has changed."""
        same = (self._address, self._version) == (parameter.data_ptr(), parameter._version)
        # Bit by bit: not a number is not equal to itself.
        return same and torch.equal(
            self._values.view(torch.uint8), _some(parameter).contiguous().view(torch.uint8)
        )


def _some(parameter: nn.Parameter) -> Tensor:
    flat = parameter.detach().reshape(-1)
    return flat[:: max(1, len(flat) // _SAMPLES)]
