"""Whether a newcomer can repeat a donor's optimizer steps, parameter by parameter, with the same bits."""

from __future__ import annotations

from typing import Any

import torch

from elastane.train.reduce.gradients import GradientLayout

FOLLOWABLE = (
    torch.optim.SGD,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.RMSprop,
    torch.optim.Adagrad,
    torch.optim.Adadelta,
    torch.optim.Adamax,
    torch.optim.ASGD,
    torch.optim.Rprop,
)


def can_follow(optimizer: torch.optim.Optimizer | None) -> bool:
    """Whether an optimizer's updates can be repeated parameter by parameter."""
    return type(optimizer) in FOLLOWABLE


def unscales_in_place(optimizer: torch.optim.Optimizer | None, layout: GradientLayout) -> bool:
    """Whether a loss scaler leaves in the reduced gradient what this optimizer saw, with no scale in it any more.

    Gradients of another type are copies, and fused optimizers unscale inside of their kernels.
    """
    inside = getattr(optimizer, "_step_supports_amp_scaling", False)
    return not inside and all(place.direct for place in layout.places)


def update_kinds(optimizer: torch.optim.Optimizer | None) -> list[list[Any]]:
    """Which kernels make the updates of each parameter group: replicas need the same ones for the same bits."""
    groups = optimizer.param_groups if optimizer is not None else []
    return [[group.get(kind) for kind in ("foreach", "fused", "capturable")] for group in groups]
