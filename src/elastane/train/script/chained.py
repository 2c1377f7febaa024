"""Several optimizers as one: they step together, on the gradients of one backward (say, Muon beside AdamW).

Optimizers that step in turn, each on gradients of its own, need no chain: give each to ``job.optimizer``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from types import MethodType
from typing import Any

import torch

from elastane.train.errors import TrainError


class Chained(torch.optim.Optimizer):
    """Steps its optimizers one after the other; schedulers are given the optimizers themselves."""

    def __init__(self, *optimizers: torch.optim.Optimizer) -> None:
        self.optimizers = optimizers
        parameters = [p for each in optimizers for group in each.param_groups for p in group["params"]]
        if not optimizers or len({id(p) for p in parameters}) < len(parameters):
            raise TrainError("et.Chained(...): give it optimizers of different parameters")
        self._stepping = False
        super().__init__(parameters, {})
        for each in optimizers:
            self._gate(each)

    def _gate(self, optimizer: torch.optim.Optimizer) -> None:
        raw = optimizer.step

        def step(_self: torch.optim.Optimizer) -> Any:
            if not self._stepping:
                raise TrainError("call step() of the et.Chained(...) optimizer, not of one that is in it")
            return raw()

        optimizer.step = MethodType(step, optimizer)  # type: ignore[method-assign]

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of all, in order."""
        return [group for each in self.optimizers for group in each.param_groups]

    @param_groups.setter
    def param_groups(self, groups: Any) -> None:
        """Groups belong to the optimizers."""

    @property
    def state(self) -> defaultdict[torch.Tensor, Any]:
        """What all of them remember, by parameter."""
        return defaultdict(dict, {key: value for each in self.optimizers for key, value in each.state.items()})

    @state.setter
    def state(self, state: Any) -> None:
        """State belongs to the optimizers."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Groups are there already, in the optimizers."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Step all optimizers, in order."""
        if closure is not None:
            raise TrainError("opt.step(closure) is not supported: a closure would be run on part of a batch")
        self._stepping = True
        try:
            for each in self.optimizers:
                each.step()
        finally:
            self._stepping = False

    def state_dict(self) -> dict[str, Any]:
        """Those of all, in order."""
        return {"optimizers": [each.state_dict() for each in self.optimizers]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        for each, state in zip(self.optimizers, state_dict["optimizers"], strict=True):
            each.load_state_dict(state)
