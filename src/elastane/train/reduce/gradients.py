"""All gradients of a model in one vector, so that one collective moves them and one dot measures them.

A backward that finds no gradient leaves new tensors without adding anything: ``clear`` before and ``take``
after it is cheaper than zeroing a vector and adding into it, and does not mind what the script does to
``p.grad`` meanwhile.  ``collect`` then copies once into a vector, ``publish`` shows a vector to the optimizer.
A parameter that no backward of a step gave a gradient has none then either, so that the optimizer leaves it alone.
Behind the gradients a vector has room for a *tail*: model buffers and a small table of floats.
It knows nothing about workers or batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from elastane.errors import ElastaneError
from elastane.train.device_checks import device_of


@dataclass(frozen=True, slots=True)
class _Place:
    parameter: nn.Parameter
    start: int
    stop: int
    direct: bool


class GradientVector:
    """One flat vector and the view of each parameter into it."""

    def __init__(self, layout: GradientLayout, tail: int) -> None:
        self.full = torch.zeros(layout.size + tail, dtype=layout.dtype, device=layout.device.as_torch())
        self.gradients = self.full[: layout.size]
        self.tail = self.full[layout.size :]
        self.views = [
            self.full[place.start : place.stop].view(place.parameter.shape) for place in layout.places
        ]


class GradientLayout:
    """Where each parameter's gradient lies: in optimizer group order, so that a group is one slice."""

    def __init__(self, groups: Sequence[Sequence[nn.Parameter]]) -> None:
        parameters = [p for group in groups for p in group if p.requires_grad]
        if not parameters:
            raise ElastaneError("the optimizer has no parameter that requires a gradient")
        self.device = device_of(parameters)
        """Where gradients lie, and are reduced."""
        double = any(p.dtype == torch.float64 for p in parameters)
        self.dtype = torch.float64 if double else torch.float32
        self.places: list[_Place] = []
        self.groups: list[slice] = []
        at = 0
        for group in groups:
            first = at
            for parameter in group:
                if parameter.requires_grad:
                    stop = at + parameter.numel()
                    self.places.append(_Place(parameter, at, stop, parameter.dtype == self.dtype))
                    at = stop
            self.groups.append(slice(first, at))
        self.size = at
        self._parameters = [place.parameter for place in self.places]
        self._found = [False] * len(self.places)
        self.absent: frozenset[int] = frozenset()
        """Places that got no gradient in the last step, by anybody's backward."""

    @property
    def count(self) -> int:
        """How many parameters there are."""
        return len(self.places)

    @property
    def parameters(self) -> Iterable[nn.Parameter]:
        """Every parameter, in the order of the vector."""
        return self._parameters

    def vector(self, tail: int = 0) -> GradientVector:
        """A new vector of zeros with room for ``tail`` more numbers."""
        return GradientVector(self, tail)

    def attach(self, vector: GradientVector, *, clear: bool) -> None:
        """Let every backward write into ``vector``; ``clear`` empties it first."""
        if clear:
            vector.gradients.zero_()
        for place, view in zip(self.places, vector.views, strict=True):
            if place.direct:
                place.parameter.grad = view
            elif clear or place.parameter.grad is None:
                place.parameter.grad = None if clear else view.to(place.parameter.dtype)

    def clear(self) -> None:
        """Leave no gradient behind: the next backward makes new ones."""
        for parameter in self._parameters:
            parameter.grad = None

    def divide(self, count: int) -> None:
        """Make the gradients of a sum over ``count`` samples those of their mean."""
        for parameter in self._parameters:
            if parameter.grad is not None and count > 1:
                parameter.grad.div_(count)

    def take(self) -> list[Tensor]:
        """The gradients as backward left them (zero where it left none), the caller's own from now on."""
        for index, parameter in enumerate(self._parameters):
            if parameter.grad is not None:
                self._found[index] = True
        taken = [
            gradient
            if (gradient := place.parameter.grad) is not None
            and gradient.dtype is self.dtype
            and gradient.layout is torch.strided
            and not gradient.requires_grad
            else self._converted(place.parameter)
            for place in self.places
        ]
        self.clear()
        return taken

    def collect(self, vector: GradientVector) -> None:
        """Take the gradients into ``vector``."""
        torch._foreach_copy_(vector.views, self.take())

    def _converted(self, parameter: nn.Parameter) -> Tensor:
        gradient = parameter.grad
        if gradient is None:
            return torch.zeros(parameter.shape, dtype=self.dtype, device=parameter.device)
        dense = gradient.detach() if gradient.layout is torch.strided else gradient.detach().to_dense()
        return dense.to(self.dtype)

    def publish(self, vector: GradientVector) -> None:
        """Make ``vector`` what the optimizer sees."""
        for place, view in zip(self.places, vector.views, strict=True):
            place.parameter.grad = view if place.direct else view.to(place.parameter.dtype)
        for index in self.absent:
            self._parameters[index].grad = None

    # Which parameters get a gradient in a step.

    def begin(self) -> None:
        """A step begins (not for one that is taken up again: what was found in it stays found)."""
        self._found = [False] * len(self.places)

    def tell(self, tail: Tensor) -> None:
        """Write into the host's part of a tail which parameters were given a gradient here."""
        tail.copy_(torch.tensor(self._found))

    def hear(self, counts: Sequence[float]) -> None:
        """Take in from the sum of these parts which parameters were given one anywhere."""
        self.absent = frozenset(index for index, count in enumerate(counts) if count < 0.5)

    def hear_only_own(self) -> None:
        """The same, where there is nobody else."""
        self.absent = frozenset(index for index, found in enumerate(self._found) if not found)
