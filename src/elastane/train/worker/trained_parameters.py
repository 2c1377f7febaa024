"""The trained parameters are an optimizer's groups and their ``requires_grad`` flags, as a value that can travel.

A script may unfreeze layers, freeze them or add a parameter group while it trains.  A worker that joins later, or
starts again from a checkpoint, never runs that line of the script, so the selection is part of the replicated
state.  Parameters go by their names, so all of them must exist when training begins.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from elastane.train.errors import TrainError
from elastane.train.worker.parameter_names import plain_name

_EXACT = 2**24
"""Whole numbers below this are exact in the table behind the gradients."""


class ParameterNames:
    """The parameters that exist when training begins, by name."""

    def __init__(self, model: nn.Module, *optimizers: torch.optim.Optimizer) -> None:
        self.by_name = {plain_name(name): parameter for name, parameter in model.named_parameters()}
        known = {id(p) for p in self.by_name.values()}
        self.outside: dict[str, nn.Parameter] = {}
        """Those the optimizers have and the model has not."""
        for which, optimizer in enumerate(optimizers):
            place = f"optimizer {which}, " if which else ""
            for number, group in enumerate(optimizer.param_groups):
                for index, parameter in enumerate(group["params"]):
                    if id(parameter) not in known:
                        self.outside[f"{place}group {number}, parameter {index}"] = parameter
        self.by_name |= self.outside
        self._names = {id(parameter): name for name, parameter in self.by_name.items()}
        for name, parameter in self.by_name.items():
            if isinstance(parameter, UninitializedParameter) or parameter.is_meta:
                raise TrainError(
                    f"parameter {name} has no values yet; materialise the model (run one batch through lazy layers, "
                    "move it off the meta device) before training begins"
                )

    def name(self, parameter: nn.Parameter) -> str:
        """The name of a parameter that existed when training began."""
        found = self._names.get(id(parameter))
        if found is None:
            shape = "x".join(map(str, parameter.shape))
            raise TrainError(
                f"the optimizer was given a parameter ({shape}) that did not exist when training began, so a worker "
                "that joins could not have it; build all layers before job.epochs(...), keep those for later frozen "
                "with requires_grad_(False), and unfreeze or add them when their time comes"
            )
        return found

    def take_outside(self) -> dict[str, torch.Tensor]:
        """The values of parameters that are in no ``state_dict``."""
        return {name: parameter.detach() for name, parameter in self.outside.items()}

    @torch.no_grad()
    def put_outside(self, values: Mapping[str, torch.Tensor]) -> None:
        """The inverse of ``take_outside``."""
        for name, saved in values.items():
            self.parameter(name).copy_(saved)

    def parameter(self, name: str) -> nn.Parameter:
        """The parameter of that name."""
        if name not in self.by_name:
            raise TrainError(
                f"the saved state trains a parameter {name} that this script's model does not have"
            )
        return self.by_name[name]


class TrainedParameters:
    """The selection of parameters at one moment."""

    def __init__(self, names: ParameterNames, optimizer: torch.optim.Optimizer) -> None:
        self._groups = [[(p, p.requires_grad) for p in group["params"]] for group in optimizer.param_groups]
        named = [[[names.name(p), flag] for p, flag in group] for group in self._groups]
        self.mark = zlib.crc32(json.dumps(named).encode()) % _EXACT
        """A number that differs between workers which do not train the same."""

    def still_true(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether nothing was frozen, unfrozen, added or taken away; one comparison per parameter."""
        groups = optimizer.param_groups
        return len(groups) == len(self._groups) and all(
            len(group["params"]) == len(seen)
            and all(
                p is known and p.requires_grad is flag
                for p, (known, flag) in zip(group["params"], seen, strict=True)
            )
            for group, seen in zip(groups, self._groups, strict=True)
        )


def take_selection(names: ParameterNames, *optimizers: torch.optim.Optimizer) -> dict[str, Any]:
    """The selection as JSON values."""
    groups, *more = (
        [[names.name(p) for p in group["params"]] for group in optimizer.param_groups]
        for optimizer in optimizers
    )
    return {
        "groups": groups,
        "more": more,
        "frozen": sorted(name for name, p in names.by_name.items() if not p.requires_grad),
    }


def put_selection(
    names: ParameterNames, selection: Mapping[str, Any], *optimizers: torch.optim.Optimizer
) -> None:
    """Train what another worker, or an earlier run of this one, trained."""
    frozen = {plain_name(name) for name in selection["frozen"]}
    for name, parameter in names.by_name.items():
        if parameter.requires_grad is (name in frozen):
            parameter.requires_grad_(name not in frozen)
    for optimizer, groups in zip(optimizers, [selection["groups"], *selection.get("more", [])], strict=False):
        _put_groups(optimizer, [[names.parameter(plain_name(name)) for name in group] for group in groups])


def _put_groups(optimizer: torch.optim.Optimizer, wanted: list[list[nn.Parameter]]) -> None:
    groups = optimizer.param_groups
    del groups[len(wanted) :]
    for group, parameters in zip(groups, wanted, strict=False):
        group["params"] = parameters
    for parameters in wanted[len(groups) :]:
        groups.append({**optimizer.defaults, "params": parameters})
