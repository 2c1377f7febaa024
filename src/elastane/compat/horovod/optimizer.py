"""``DistributedOptimizer``: the script's own optimizer, whose ``step`` first averages the gradients.

All gradients go in one vector, in one all-reduce.  Behind them stands how many workers have a gradient for each
parameter, so that one that nobody has stays without, and one that only some have is the same everywhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from types import MethodType
from typing import Any

import torch
from torch import Tensor

from elastane.compat.horovod.operations import Average, Operation
from elastane.compat.horovod.process import session
from elastane.train.errors import TrainError


class Compression(Enum):
    """The type in which gradients travel."""

    none = None
    fp16 = torch.float16


class _Averager:
    """Averages the gradients of one optimizer."""

    def __init__(self, optimizer: torch.optim.Optimizer, compression: Compression, op: Operation) -> None:
        self._optimizer = optimizer
        self._compression = compression
        self._op = op
        self._synchronized = False
        self._skip = False
        self._last_s = time.perf_counter()
        self.sync_s = 0.0

    @torch.no_grad()
    def synchronize(self) -> None:
        """Average now; the ``step`` that follows will not do it again within ``skip_synchronize``."""
        began = time.perf_counter()
        self._synchronized = True
        if session().join().world > 1:
            parameters = [p for group in self._optimizer.param_groups for p in group["params"]]
            self._exchange([p for p in parameters if p.requires_grad])
        self.sync_s += time.perf_counter() - began

    def _exchange(self, parameters: list[torch.nn.Parameter]) -> None:
        flat = _flat(parameters)
        if self._compression.value is not None:
            flat = flat.to(self._compression.value)
        session().call(lambda group: group.all_reduce(flat))
        sizes = [p.numel() for p in parameters]
        *parts, holders = torch.split(flat, [*sizes, len(sizes)])
        workers = session().membership.world if self._op is Average else 1
        for parameter, part, present in zip(parameters, parts, holders.tolist(), strict=True):
            if present:
                mean = part.view(parameter.shape).to(parameter.device, parameter.dtype) / workers
                _replace_gradient(parameter, mean)

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """For a ``step`` after ``synchronize``, with something in between (as clipping)."""
        if not self._synchronized:
            raise TrainError("optimizer.skip_synchronize(): call optimizer.synchronize() before")
        self._skip = True
        try:
            yield
        finally:
            self._skip = False

    def before_step(self) -> None:
        """Average, unless it has been done."""
        if not self._skip:
            self.synchronize()
        self._synchronized = False

    def after_step(self) -> None:
        """Count an optimizer step that was made."""
        now = time.perf_counter()
        session().stepped(max(0.0, now - self._last_s - self.sync_s), self.sync_s)
        self._last_s, self.sync_s = now, 0.0


def _flat(parameters: list[torch.nn.Parameter]) -> Tensor:
    """All gradients, and how many there are of each, in the widest type that occurs."""
    wide = torch.float64 if any(p.dtype == torch.float64 for p in parameters) else torch.float32
    pieces = [
        (p.grad.to_dense() if p.grad.is_sparse else p.grad).reshape(-1).to("cpu", wide)
        if p.grad is not None
        else torch.zeros(p.numel(), dtype=wide)
        for p in parameters
    ]
    return torch.cat([*pieces, torch.tensor([float(p.grad is not None) for p in parameters], dtype=wide)])


def _replace_gradient(parameter: torch.nn.Parameter, mean: Tensor) -> None:
    if parameter.grad is not None and not parameter.grad.is_sparse:
        parameter.grad.copy_(mean)
    else:
        parameter.grad = mean


def DistributedOptimizer(  # noqa: N802 (Horovod's name)
    optimizer: Any,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None = None,  # noqa: ARG001 (not needed)
    compression: Compression = Compression.none,
    backward_passes_per_step: int = 1,
    op: Operation = Average,
) -> Any:
    """The same optimizer, averaging in ``step``; it gets ``synchronize()`` and ``skip_synchronize()``.

    ``backward_passes_per_step`` needs no care here: gradients are averaged once per ``step``, however many
    backward passes have added to them.
    """
    if backward_passes_per_step < 1:
        raise TrainError(f"backward_passes_per_step must be 1 or more, not {backward_passes_per_step}")
    averager = _Averager(optimizer, compression, op)
    raw: Callable[[], Any] = optimizer.step

    def step(_self: torch.optim.Optimizer, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        averager.before_step()
        raw()
        averager.after_step()
        return loss

    # A bound method, because LR schedulers look for the function behind it.
    optimizer.step = MethodType(step, optimizer)
    optimizer.synchronize = averager.synchronize
    optimizer.skip_synchronize = averager.skip_synchronize
    return optimizer
