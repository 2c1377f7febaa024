"""A recipe is what the script declares about a step before it trains: optimizers, limits, losses, accumulation.

The script's side writes it through the methods; the loop reads it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from elastane.train.adapt.statistics import Scale
from elastane.train.errors import TrainError
from elastane.train.worker.clipping import Clipping
from elastane.train.worker.replica_state import TrainingState


class Recipe:
    """The declarations of one script; optimizers are known by their number, in the order they were named."""

    def __init__(self, state: TrainingState) -> None:
        self.accumulate = 1
        """Batches of a loader that make one step; the script divides its loss by it."""
        self.norms: dict[int, float] = {}
        """Norm that the mean gradient of an optimizer is clipped to."""
        self.sums: frozenset[int] = frozenset()
        """Optimizers whose gradients are of losses that are sums over samples, not means; known at ``close``."""
        self.scaled = False
        """Whether a ``GradScaler`` makes the steps."""
        self.left_out = False
        """Whether it left out the latest one, because of a gradient that was not finite."""
        self._finite: bool | None = None
        """Whether the mean gradient of the step at hand is finite, where that came to the host with the table."""
        self.inputs: object = None
        """The latest inputs that the model was given: larger batches are tried out with them."""
        self.clipping = Clipping(lambda: state.optimizers, self.loss_scale)
        self._state = state
        self._steps: list[Callable[[], None]] = []
        self._bare_step: Callable[[], None] | None = None
        self._repeats = False
        self._loss_scale: Callable[[], Scale] = lambda: 1.0
        self._losses: dict[str, str | None] = {}

    @property
    def phased(self) -> bool:
        """Whether a batch may have several optimizer steps."""
        return self._repeats or len(self._steps) > 1

    @property
    def loss_unsaid(self) -> bool:
        """Whether the script has not said of any model what its loss is."""
        return all(loss is None for loss in self._losses.values())

    def found_finite(self, finite: bool) -> None:
        """Keep whether the mean gradient of the step at hand is finite."""
        self._finite = finite

    def take_finite(self) -> bool | None:
        """Return what was found of the step at hand, once; None if it did not come to the host with the table."""
        finite, self._finite = self._finite, None
        return finite

    def enlist(self, raw_step: Callable[[], None], *, repeats: bool = False) -> int:
        """Add an optimizer by its own ``step``; returns its number."""
        self._steps.append(raw_step)
        self._repeats = self._repeats or repeats
        return len(self._steps) - 1

    def clip(self, number: int, norm: float) -> None:
        """Clip the mean gradient of an optimizer to this norm."""
        self.norms[number] = norm

    def accumulate_over(self, batches: int) -> None:
        """Make one step of so many batches."""
        self.accumulate = batches

    def loss_of(self, model: str, kind: str | None) -> None:
        """Declare what the loss of a model is: ``mean``, ``sum``, or not said."""
        self._losses[model] = kind

    def scale(self, step: Callable[[], None], loss_scale: Callable[[], Scale]) -> None:
        """Let a ``GradScaler`` make the first optimizer's steps."""
        self._bare_step = self._steps[0]
        self._steps[0], self._loss_scale, self.scaled = step, loss_scale, True

    def saw(self, inputs: object) -> None:
        """The model was given these inputs in training."""
        self.inputs = inputs

    def raw_step(self, number: int = 0) -> Callable[[], None]:
        """The real ``step`` of an optimizer."""
        return self._steps[number]

    def steps(self, made: bool) -> None:
        """The loss scaler makes, or leaves out, the step at hand."""
        self.left_out = not made

    def bare_step(self) -> Callable[[], None]:
        """The first optimizer's own ``step``, for gradients that no loss scale is in any more."""
        return self._bare_step or self._steps[0]

    def loss_scale(self) -> Scale:
        """The factor that gradients contain at present; a tensor where only an accelerator knows it."""
        return self._loss_scale()

    def close(self) -> None:
        """All models and optimizers are named: find out which of them train on sums."""
        if not self.phased:
            self.sums = frozenset({0} if "sum" in self._losses.values() else ())
            return
        summed = {
            id(p)
            for name, model in self._state.models.items()
            for p in model.parameters()
            if self._losses.get(name) == "sum"
        }
        self.sums = frozenset(
            number for number, each in enumerate(self._state.optimizers) if _is_summed(each, summed)
        )


def _is_summed(optimizer: torch.optim.Optimizer, summed: set[int]) -> bool:
    flags = {id(p) in summed for group in optimizer.param_groups for p in group["params"]}
    if len(flags) > 1:
        raise TrainError(
            "job.model(loss=...): one optimizer trains models of which some have 'mean' and some 'sum'; "
            "give all of them the same"
        )
    return True in flags
