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
    """Parameters as they were at one moment: where each lies, how often it was written to, some of its values."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self._parameters = list(parameters)
        self._places = _places(self._parameters)
        self._values = _some(self._parameters)

    @property
    def changed(self) -> bool:
        """Whether any of them has been written to since; a device is waited for once, not for each."""
        return self._places != _places(self._parameters) or not torch.equal(
            self._values, _some(self._parameters)
        )


def _places(parameters: list[nn.Parameter]) -> list[tuple[int, int]]:
    return [(p.data_ptr(), p._version) for p in parameters]


def _some(parameters: list[nn.Parameter]) -> Tensor:
    """Bytes, since not a number is not equal to itself."""
    flat = [p.detach().reshape(-1) for p in parameters]
    some = [each[:: max(1, len(each) // _SAMPLES)].contiguous().view(torch.uint8) for each in flat]
    return torch.cat(some) if some else torch.empty(0)
