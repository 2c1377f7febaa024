"""The script's own optimizer, scheduler and loss scaler, kept from acting on half a step.

Methods are replaced on the instances, so the objects stay what they were: LR schedulers, mixed precision and
frameworks that hold them work on.  ``step`` acts once per real step, however many units it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import torch

from elastane.train.errors import TrainError
from elastane.train.script.training import Training

_MARK = "_wrapped_by_lr_sched"
"""What PyTorch's schedulers leave on an optimizer's ``step``, and warn if they do not find it again."""


def gate_optimizer(optimizer: torch.optim.Optimizer, training: Training, *, repeats: bool = False) -> int:
    """Let ``step`` end a unit; returns the optimizer's number.

    A parameter group that came with the state is not added again on the way back to it.
    """
    raw, raw_add = optimizer.step, optimizer.add_param_group

    def step(_self: torch.optim.Optimizer, closure: Any = None) -> None:
        if closure is not None:
            raise TrainError("opt.step(closure) is not supported: a closure would be run on part of a batch")
        training.loop.stepping(number)

    def zero_grad(set_to_none: bool = True) -> None:
        """Drop the gradients; never zeroed in place, since a newcomer may still be sent the last ones."""
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                zeros = parameter.requires_grad and not set_to_none
                parameter.grad = torch.zeros_like(parameter) if zeros else None

    def add_param_group(param_group: dict[str, Any]) -> None:
        given = param_group["params"]
        given = [given] if isinstance(given, torch.Tensor) else list(given)
        known = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if not (training.replaying and all(id(p) in known for p in given)):
            raw_add({**param_group, "params": given})

    number = training.recipe.enlist(raw, repeats=repeats)
    if hasattr(
        raw, _MARK
    ):  # a scheduler was made before, and looks for its mark; what it did to step is behind ours
        setattr(step, _MARK, True)
    # A bound method, because LR schedulers look for the function behind it.
    optimizer.step = MethodType(step, optimizer)  # type: ignore[method-assign]
    optimizer.zero_grad = zero_grad  # type: ignore[method-assign]
    optimizer.add_param_group = add_param_group  # type: ignore[method-assign]
    return number


def gate_scheduler(scheduler: Any, training: Training) -> None:
    """Let ``step`` act unless a step is half done, or the script is only finding its way back."""
    raw = scheduler.step

    def step(*args: Any, **kwargs: Any) -> None:
        if not training.half_done and not training.replaying:
            raw(*args, **kwargs)

    scheduler.step = step


def _scale_of(scaler: Any) -> float | torch.Tensor:
    """The factor in present gradients; left where it is, since reading it would be a wait for the device."""
    there = scaler._get_scale_async() if scaler.is_enabled() and hasattr(scaler, "_get_scale_async") else None
    return scaler.get_scale() if there is None or there.is_cpu else there.detach()  # type: ignore[no-any-return]


@contextmanager
def _decided(scaler: Any, finite: bool | None) -> Iterator[None]:
    """Inside, the scaler makes its step or leaves it out as is known already; it would wait for the device to know."""
    if finite is None or not hasattr(scaler, "_maybe_opt_step"):
        yield
        return
    scaler._maybe_opt_step = lambda optimizer, _state, *words, **more: (
        optimizer.step(*words, **more) if finite else None
    )
    try:
        yield
    finally:
        del scaler._maybe_opt_step


def gate_scaler(scaler: Any, training: Training) -> None:
    """Let ``step`` unscale, check and step on the reduced gradients, and ``update`` follow real steps only."""
    raw_step, raw_update, raw_unscale = scaler.step, scaler.update, scaler.unscale_
    recipe, bare_step = training.recipe, training.recipe.raw_step()

    def make_step() -> None:
        recipe.steps(True)
        bare_step()

    def scaled_step() -> None:
        optimizer = training.state.optimizer
        assert optimizer is not None
        gated = optimizer.step
        recipe.steps(False)  # until it asks for the step
        known = recipe.take_finite()
        optimizer.step = make_step  # type: ignore[method-assign,assignment]
        scaler.unscale_ = raw_unscale
        try:
            with _decided(scaler, known):
                raw_step(optimizer)
        finally:
            optimizer.step = gated  # type: ignore[method-assign]
            scaler.unscale_ = unscale_

    def step(optimizer: torch.optim.Optimizer, *_args: Any, **_kwargs: Any) -> None:
        if optimizer is not training.state.optimizer:
            raise TrainError("scaler.step() was called with another optimizer than the job's")
        training.loop.unit_done()

    def unscale_(optimizer: torch.optim.Optimizer) -> None:
        """In the loop body there is only a part: the whole gradient is unscaled and checked at the step."""
        if optimizer is not training.state.optimizer:
            raw_unscale(optimizer)

    def update(*args: Any, **kwargs: Any) -> None:
        if training.stepped:
            raw_update(*args, **kwargs)

    recipe.scale(scaled_step, lambda: _scale_of(scaler))
    scaler.step, scaler.update, scaler.unscale_ = step, update, unscale_
