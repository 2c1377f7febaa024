"""Gradient clipping of a whole step: what the loop body asks for is done to the mean gradient of all parts.

In the body a script sees the gradient of its part alone, so clipping there and then would be another algorithm for
every number of workers.  Requests (``job.clip_grad_norm_``, and PyTorch's own functions, which ``detour`` leads
here while the body runs) are noted, and carried out between the reduction and the optimizer's step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from elastane.train.adapt.statistics import Scale
from elastane.train.errors import TrainError
from elastane.train.reduce.gradient_reads import harmless_reads
from elastane.train.reduce.gradients import GradientLayout, GradientVector
from elastane.train.worker.clipping_hooks import Detour

_TINY = 1e-6


@dataclass(frozen=True, slots=True)
class _Request:
    """Clip the gradients of these parameters (by id) to a norm, or without one by value."""

    parameters: frozenset[int]
    limit: float
    norm_type: float | None
    finite: bool = False

    def apply(self, layout: GradientLayout, vector: GradientVector, scale: Scale) -> None:
        """Carry it out on a reduced gradient that is ``scale`` times too large."""
        places = [at for at, p in enumerate(layout.parameters) if id(p) in self.parameters]
        if not places:
            return
        whole = len(places) == layout.count
        pieces = [vector.gradients] if whole else [vector.views[at] for at in places]
        if self.norm_type is None:
            for piece in pieces:
                # What is not finite stays so: a loss scaler has to see it.
                piece.copy_(torch.where(piece.isfinite(), _within(piece, self.limit * scale), piece))
            return
        norm = total_norm(pieces, self.norm_type)
        if self.finite and not norm.isfinite():
            raise TrainError(
                "clip_grad_norm_(error_if_nonfinite=True): the gradient of this step is not finite"
            )
        torch._foreach_mul_(pieces, torch.clamp(self.limit * scale / (norm + _TINY), max=1.0))


def _within(piece: Tensor, limit: Scale) -> Tensor:
    if isinstance(limit, Tensor):
        return torch.maximum(torch.minimum(piece, limit), -limit)
    return piece.clamp(-limit, limit)


def _listed(parameters: Any) -> list[Any]:
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


def total_norm(pieces: Sequence[Tensor], norm_type: float) -> Tensor:
    """The norm of all pieces as one vector."""
    norms = [torch.linalg.vector_norm(piece, norm_type) for piece in pieces]
    total: Tensor = norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms), norm_type)
    return total


class Clipping:
    """What one worker's script has asked for."""

    def __init__(
        self, optimizers: Callable[[], Sequence[torch.optim.Optimizer]], scale: Callable[[], Scale]
    ) -> None:
        self._optimizers = optimizers
        self._scale = scale
        self._always: list[_Request] = []
        self._asked: list[_Request] = []
        self._inside = False
        self._detours = (
            Detour("clip_grad_norm_", self._torch_norm),
            Detour("clip_grad_value_", self._torch_value),
            Detour("_clip_grads_with_norm_", self._torch_with_norm),
        )

    def open(self) -> None:
        """A loop body begins: what it asks for is for this step only."""
        self._asked, self._inside = [], True
        for detour in self._detours:
            detour.open()

    def close(self) -> None:
        """The body has ended, or was left."""
        self._inside = False
        for detour in self._detours:
            detour.close()

    def forget(self) -> None:
        """A step of a body with several is made, or passed by: what was asked for it is not for the next one."""
        self._asked = []

    def apply(self, layout: GradientLayout, vector: GradientVector) -> None:
        """Clip the mean gradient of a step, as it was asked."""
        for request in (*self._always, *self._asked):
            request.apply(layout, vector, self._scale())

    def norm(self, parameters: Any, limit: float, norm_type: float = 2.0, finite: bool = False) -> Tensor:
        """Ask for a limit to the norm; the norm of this worker's part is returned."""
        chosen = self._chosen(parameters)
        self._ask(_Request(frozenset(map(id, chosen)), float(limit), float(norm_type), finite))
        with harmless_reads():
            pieces = [p.grad.detach() for p in chosen if p.grad is not None]
        dense = [piece.to_dense() if piece.layout is not torch.strided else piece for piece in pieces]
        return total_norm(dense, float(norm_type)) / self._scale() if dense else torch.tensor(0.0)

    def value(self, parameters: Any, limit: float) -> None:
        """Ask for a limit to each number."""
        self._ask(_Request(frozenset(map(id, self._chosen(parameters))), float(limit), None))

    def _ask(self, request: _Request) -> None:
        if self._inside:
            self._asked.append(request)
        else:
            self._always = [r for r in self._always if r.parameters != request.parameters] + [request]

    def _chosen(self, parameters: Any) -> list[nn.Parameter]:
        """Those the job trains; others must not have a say in the norm without being known."""
        given = _listed(parameters)
        trained = self._trained()
        if len({trained[id(p)] for p in given if id(p) in trained}) > 1:
            raise TrainError(
                "clip_grad_norm_ was given parameters of several optimizers, which step one after the other; give it "
                "those of one of them at a time"
            )
        for parameter in given:
            if id(parameter) not in trained and parameter.grad is not None:
                shape = "x".join(map(str, parameter.shape))
                raise TrainError(
                    f"clip_grad_norm_ was given a parameter ({shape}) with a gradient that the job's optimizer does "
                    "not train; clip those of the job by themselves: job.clip_grad_norm_(its parameters, …)"
                )
        return [p for p in given if id(p) in trained]

    # PyTorch's own functions, called in the loop body.

    def _trained(self) -> dict[int, int]:
        """The number of the optimizer that each parameter (by id) belongs to, frozen ones included."""
        return {
            id(p): number
            for number, optimizer in enumerate(self._optimizers())
            for group in optimizer.param_groups
            for p in group["params"]
        }

    def _ours(self, parameters: Any) -> bool:
        trained = self._trained()
        return any(id(p) in trained for p in parameters)

    def _torch_norm(
        self,
        original: Callable[..., Any],
        parameters: Any,
        max_norm: float,
        norm_type: float = 2.0,
        error_if_nonfinite: bool = False,
        foreach: bool | None = None,
    ) -> Any:
        given = _listed(parameters)
        if not self._ours(given):
            return original(given, max_norm, norm_type, error_if_nonfinite, foreach)
        return self.norm(given, max_norm, norm_type, error_if_nonfinite)

    def _torch_value(
        self, original: Callable[..., Any], parameters: Any, clip_value: float, foreach: bool | None = None
    ) -> Any:
        given = _listed(parameters)
        if not self._ours(given):
            return original(given, clip_value, foreach)
        self.value(given, clip_value)
        return None

    def _torch_with_norm(
        self, original: Callable[..., Any], parameters: Any, *others: Any, **settings: Any
    ) -> Any:
        given = _listed(parameters)
        if self._ours(given):
            raise TrainError(
                "clip_grads_with_norm_ would clip a part of the gradient by the norm of a part; "
                "write job.clip_grad_norm_(parameters, max_norm)"
            )
        return original(given, *others, **settings)
