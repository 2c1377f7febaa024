"""The gradient machinery of a job: for each optimizer a layout, a reducer, and which parameters it trains.

Scripts freeze, unfreeze and add parameters while training goes on.  A layout belongs to a selection of parameters,
so another selection needs another setup: it is made as soon as the script has changed the selection (``notice``) and
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
class OptimizerSetup:
    """What it takes to train the parameters that one optimizer trains now."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    layout: GradientLayout
    reducer: Reducer
    buffers: BufferKeeper
    trained: TrainedParameters


class OptimizerSetups:
    """The setups of all optimizers, by number; ``current`` is the one that trains at the moment."""

    def __init__(self, state: TrainingState, reducer_of: ReducerOf) -> None:
        model, optimizers = state.model, tuple(state.optimizers)
        if model is None or not optimizers:
            raise TrainError("call job.model(...) and job.optimizer(...) before training begins")
        self._reducer_of = reducer_of
        self._names = names = ParameterNames(model, *optimizers)
        self.structure = ModelStructure(model)
        buffers = BufferKeeper(model)
        self._setups = [self._made(model, each, buffers) for each in optimizers]
        self.current = self._setups[0]
        self.changed: OptimizerSetup | None = None
        """For what the script wants to train now, until all workers are known to want it."""
        self.refitted = False
        """Whether the selection has changed since the start."""
        if names.outside:
            state.add("parameters outside the model", names.take_outside, names.put_outside)

    def _made(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, buffers: BufferKeeper
    ) -> OptimizerSetup:
        layout = GradientLayout([group["params"] for group in optimizer.param_groups])
        trained = TrainedParameters(self._names, optimizer)
        return OptimizerSetup(model, optimizer, layout, self._reducer_of(layout), buffers, trained)

    def _remade(self, setup: OptimizerSetup) -> OptimizerSetup:
        return self._made(setup.model, setup.optimizer, setup.buffers)

    @property
    def all(self) -> tuple[OptimizerSetup, ...]:
        """The setups of all optimizers, by number."""
        return tuple(self._setups)

    def selection(self, settle: Callable[[], None]) -> Selection:
        """How the state of a replica tells which parameters are trained; ``settle`` is called when that is agreed."""
        optimizers = [setup.optimizer for setup in self._setups]
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
        setup = self.current
        if setup.trained.still_true(setup.optimizer):
            self.changed = None
        elif self.changed is None or not self.changed.trained.still_true(setup.optimizer):
            self.changed = self._remade(setup)
            return True
        return False

    def settle(self) -> bool:
        """Train what is selected now, as all workers are known to; True if that is a change."""
        self.notice()
        if self.changed is None:
            return False
        self.current.layout.clear()
        self.current = self._setups[0] = self.changed
        self.changed, self.refitted = None, True
        return True

    # Several optimizers: scripts freeze one model to train another, so each is looked at when it steps.

    def select(self, number: int) -> bool:
        """Make the setup of an optimizer the current one; True if it had to be made anew for other parameters."""
        setup = self._setups[number]
        changed = not setup.trained.still_true(setup.optimizer)
        if changed:
            if setup.reducer.finished:
                raise TrainError(
                    "parameters were frozen or unfrozen between two parts of one batch; do it at the same place for all"
                )
            setup = self._setups[number] = self._remade(setup)
        self.current = setup
        return changed
