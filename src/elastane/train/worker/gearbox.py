"""The gradient machinery of a job: for each optimizer a layout, a reducer, and which parameters it trains.

Scripts freeze, unfreeze and add parameters while training goes on.  A layout belongs to a selection of parameters,
so another selection needs another gear: it is made as soon as the script has changed the selection (``notice``) and
replaces the old one when all workers are known to have done the same (``settle``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from elastane.train.errors import TrainError
from elastane.train.reduce.contract import Reducer
from elastane.train.reduce.gradients import GradientLayout
from elastane.train.worker.buffers import BufferKeeper
from elastane.train.worker.parameter_names import plain_name
from elastane.train.worker.replica_state import Selection, TrainingState
from elastane.train.worker.structure_guard import ModelStructure
from elastane.train.worker.trained_parameters import (
    ParameterNames,
    TrainedParameters,
    put_selection,
    take_selection,
)

ReducerOf = Callable[[GradientLayout], Reducer]
"""Makes the reducer for a layout: the place where a mode (and a device or transport) is chosen."""


@dataclass(frozen=True, slots=True)
class Gear:
    """What it takes to train the parameters that one optimizer trains now."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    layout: GradientLayout
    reducer: Reducer
    buffers: BufferKeeper
    trained: TrainedParameters


class Gearbox:
    """The gears of all optimizers, by number; ``current`` is the one that trains at the moment."""

    def __init__(self, state: TrainingState, reducer_of: ReducerOf) -> None:
        model, optimizers = state.model, tuple(state.optimizers)
        if model is None or not optimizers:
            raise TrainError("call job.model(...) and job.optimizer(...) before training begins")
        self._reducer_of = reducer_of
        self._names = names = ParameterNames(model, *optimizers)
        self.structure = ModelStructure(model)
        buffers = BufferKeeper(model)
        self._gears = [self._made(model, each, buffers) for each in optimizers]
        self.current = self._gears[0]
        self.changed: Gear | None = None
        """For what the script wants to train now, until all workers are known to want it."""
        self.refitted = False
        """Whether the selection has changed since the start."""
        if names.outside:
            state.add("parameters outside the model", names.take_outside, names.put_outside)

    def _made(self, model: nn.Module, optimizer: torch.optim.Optimizer, buffers: BufferKeeper) -> Gear:
        layout = GradientLayout([group["params"] for group in optimizer.param_groups])
        trained = TrainedParameters(self._names, optimizer)
        return Gear(model, optimizer, layout, self._reducer_of(layout), buffers, trained)

    def _remade(self, gear: Gear) -> Gear:
        return self._made(gear.model, gear.optimizer, gear.buffers)

    @property
    def all(self) -> tuple[Gear, ...]:
        """The gears of all optimizers, by number."""
        return tuple(self._gears)

    def selection(self, settle: Callable[[], None]) -> Selection:
        """How the state of a replica tells which parameters are trained; ``settle`` is called when that is agreed."""
        optimizers = [gear.optimizer for gear in self._gears]
        return Selection(
            lambda: take_selection(self._names, *optimizers),
            lambda selection: put_selection(self._names, selection, *optimizers),
            settle,
        )

    def named_parameters(self) -> list[list[object]]:
        """Name, shape and type of each parameter that is trained now: what must be equal between workers."""
        names = {id(p): plain_name(name) for name, p in self.current.model.named_parameters()}
        return [[names.get(id(p), "?"), list(p.shape), str(p.dtype)] for p in self.current.layout.parameters]

    # One optimizer: its selection changes at one place of the script, the same for all workers.

    def notice(self) -> bool:
        """See whether the script has changed what is trained; True if it has since this was last asked."""
        gear = self.current
        if gear.trained.still_true(gear.optimizer):
            self.changed = None
        elif self.changed is None or not self.changed.trained.still_true(gear.optimizer):
            self.changed = self._remade(gear)
            return True
        return False

    def settle(self) -> bool:
        """Train what is selected now, as all workers are known to; True if that is a change."""
        self.notice()
        if self.changed is None:
            return False
        self.current.layout.clear()
        self.current = self._gears[0] = self.changed
        self.changed, self.refitted = None, True
        return True

    # Several optimizers: scripts freeze one model to train another, so each is looked at when it steps.

    def select(self, number: int) -> bool:
        """Make the gear of an optimizer the current one; True if it had to be made anew for other parameters."""
        gear = self._gears[number]
        changed = not gear.trained.still_true(gear.optimizer)
        if changed:
            if gear.reducer.finished:
                raise TrainError(
                    "parameters were frozen or unfrozen between two parts of one batch; do it at the same place for all"
                )
            gear = self._gears[number] = self._remade(gear)
        self.current = gear
        return changed
