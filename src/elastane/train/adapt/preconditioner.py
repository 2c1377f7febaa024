"""A preconditioner is how an optimizer stretches a gradient before it steps, as a diagonal; norms of such gradients.

The noise scale must be measured in the metric in which the optimizer moves.  SGD and its kin move along the
gradient itself: P = 1.  Adam and its kin divide by a second moment:

    P = 1 / (√(v / (1 − β2^t)) + ε)      for a parameter with t ≥ 5 steps, else 1

where v is ``exp_avg_sq`` (its running maximum with ``amsgrad``).  Where v is still 0 an element never had a
gradient (a rare word of an embedding) and has no scale yet: P = 0 leaves it out, since 1/ε would drown all
others on the day it is first met.  Reference: AdaptDL; Qiao et al., Pollux, OSDI 2021.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from elastane.train.reduce.gradients import GradientLayout

YOUNGEST = 5
"""Steps after which a second moment is believed."""

_CHUNK = 1 << 16  # a float32 dot over 25 million numbers is wrong by 0.1 %; in pieces of this size by 1e-7
_TINY = 1e-38


class Preconditioner:
    """The diagonal P of one optimizer in the order of one gradient layout; ``refresh`` brings it up to date."""

    def __init__(self, layout: GradientLayout, optimizer: torch.optim.Optimizer) -> None:
        self._layout = layout
        self._optimizer = optimizer
        self._diagonal: Tensor | None = None
        index = {id(p): at for at, group in enumerate(optimizer.param_groups) for p in group["params"]}
        # By number: loading an optimizer's state replaces its groups by new dictionaries.
        self._group_of = [index[id(place.parameter)] for place in layout.places]

    @property
    def active(self) -> bool:
        """Whether P differed from 1 anywhere at the last ``refresh``."""
        return self._diagonal is not None

    @torch.no_grad()
    def refresh(self) -> None:
        """Read the second moments as they are now."""
        seen = False
        for place, at in zip(self._layout.places, self._group_of, strict=True):
            group = self._optimizer.param_groups[at]
            state = self._optimizer.state.get(place.parameter, {})
            if not _mature(state, group):
                if self._diagonal is not None:
                    self._diagonal[place.start : place.stop] = 1.0
                continue
            seen = True
            if self._diagonal is None:
                self._diagonal = torch.ones(
                    self._layout.size, dtype=self._layout.dtype, device=self._layout.device.as_torch()
                )
            _write_inverse(self._diagonal[place.start : place.stop], state, group)
        if not seen:
            self._diagonal = None

    def square_norms(self, vector: Tensor) -> list[float]:
        """|P g|² of each parameter group's slice, summed in double precision."""
        return self.products(vector, vector)

    def products(self, one: Tensor, other: Tensor) -> list[float]:
        """The inner product (P g)·(P h) of each parameter group's slice, summed in double precision."""
        return [self._product(one, other, group) for group in self._layout.groups]

    def products_there(self, one: Tensor, other: Tensor) -> Tensor:
        """The same without a wait for the device: one number per group, in double precision, where the vectors are."""
        whole = self._stretched(one)
        right = whole if one is other else self._stretched(other)
        parts = [(whole[group] * right[group]).sum(dtype=torch.float64) for group in self._layout.groups]
        return torch.stack(parts)

    def _stretched(self, vector: Tensor) -> Tensor:
        return vector if self._diagonal is None else vector * self._diagonal

    def _product(self, one: Tensor, other: Tensor, group: slice) -> float:
        left, right = _chunks(one[group]), _chunks(other[group])
        if self._diagonal is None:
            return math.fsum(float(torch.dot(a, b)) for a, b in zip(left, right, strict=True))
        total = 0.0
        for a, b, stretch in zip(left, right, _chunks(self._diagonal[group]), strict=True):
            stretched = a * stretch
            total += float(torch.dot(stretched, stretched if one is other else b * stretch))
        return total


def is_adaptive(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the optimizer divides by a second moment, told from its settings before it made any step."""
    return all("betas" in group and "eps" in group for group in optimizer.param_groups)


@torch.no_grad()
def reset_moments(optimizer: torch.optim.Optimizer) -> None:
    """Let Adam and its kin begin anew, as AdaptDL does when the batch changes; others are left alone.

    Old second moments belong to another noise level.  It is off by default: a restart costs the first steps
    after every change their scale, and moments forget by themselves within 1 / (1 − β2) steps.
    """
    for state in optimizer.state.values():
        if "exp_avg_sq" not in state:
            continue
        for name in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step"):
            if isinstance(state.get(name), Tensor):
                state[name].zero_()
            elif name in state:
                state[name] = 0
        if "mu_product" in state:  # NAdam's product of momenta so far
            state["mu_product"].fill_(1.0)


def _mature(state: dict[str, Any], group: dict[str, Any]) -> bool:
    return "exp_avg_sq" in state and "betas" in group and float(state.get("step", 0)) >= YOUNGEST


def _write_inverse(target: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """P as √v / (√v·(√v + ε/c)·c + tiny) with c = 1/√(1 − β2^t): few passes, and 0 at v = 0 without a mask."""
    correction = 1.0 / math.sqrt(1.0 - float(group["betas"][1]) ** float(state["step"]))
    epsilon = float(group["eps"]) / correction
    tiny = torch.full((), _TINY, dtype=target.dtype, device=target.device)
    moment = state.get("max_exp_avg_sq", state["exp_avg_sq"]).reshape(-1)
    for part, second in zip(_chunks(target), _chunks(moment), strict=True):
        root = second.to(part.dtype).sqrt()
        torch.addcmul(tiny, root, root + epsilon, value=correction, out=part)
        torch.div(root, part, out=part)


def _chunks(vector: Tensor) -> tuple[Tensor, ...]:
    return torch.split(vector, _CHUNK)
