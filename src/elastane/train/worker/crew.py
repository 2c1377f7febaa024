"""The training as its membership sees it (``membership.Crew``): state, position, and how to become a replica."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from elastane.train.reports.events import Resized
from elastane.train.worker.leader_duties import Host
from elastane.train.worker.live_join import (
    ShadowReceiver,
    ShadowSender,
    can_follow,
    unscales_in_place,
    update_kinds,
)
from elastane.train.worker.membership import Change, Membership
from elastane.train.worker.optimizer_setup import OptimizerSetups
from elastane.train.worker.position import Position
from elastane.train.worker.recipe import Recipe
from elastane.train.worker.replica_state import TrainingState
from elastane.train.worker.telemetry import Reporter

OTHERS_TRAINED = "other parameters are trained than at the start"
"""Why a newcomer cannot follow: its script selects what was trained at first."""


@dataclass(frozen=True, slots=True)
class StepReplay:
    """The two ends of a shadow join of a job with one optimizer (``membership.Replication``)."""

    state: TrainingState
    setups: OptimizerSetups
    recipe: Recipe
    position: Position

    def sender(self, target: str, token: str, generation: int) -> ShadowSender:
        """A stream of this worker's state to a newcomer of this generation."""
        layout, recipe = self.setups.current.layout, self.recipe
        sender = ShadowSender(
            target, token, self.state, layout, generation, left_out=lambda: recipe.scaled and recipe.left_out
        )
        if self.setups.refitted:
            sender.refuse(OTHERS_TRAINED)
        return sender

    def follow(self, receiver: ShadowReceiver, caught_up: Callable[[], None]) -> int:
        """Become a replica of the worker that sends; returns the step."""
        # What the donor sends is what its optimizer saw: a loss scaler has nothing left to do.
        layout, step = self.setups.current.layout, self.recipe.bare_step()
        self.position.follow_to(receiver.follow(self.state, layout, step, caught_up))
        return self.position.step


@dataclass(frozen=True, slots=True)
class LoopHooks:
    """What the crew asks of the loop itself."""

    settings: Mapping[str, Any]
    """Settings that must be equal between workers."""
    under_way: Callable[[], bool]
    """Whether units of the present step have been given out."""
    changed: Callable[[], None]
    """Members have changed: shares and the split of the batch are new."""


class LoopCrew:
    """The ``Crew`` of a training loop."""

    def __init__(
        self,
        state: TrainingState,
        position: Position,
        setups: OptimizerSetups,
        recipe: Recipe,
        membership: Membership,
        reporter: Reporter,
        host: Host,
        hooks: LoopHooks,
    ) -> None:
        self.state = state
        self._position = position
        self._setups = setups
        self._recipe = recipe
        self._membership = membership
        self._reporter = reporter
        self._host = host
        self._hooks = hooks
        self._replay = StepReplay(state, setups, recipe, position)

    @property
    def step(self) -> int:
        """Optimizer steps made here."""
        return self._position.step

    @property
    def tick(self) -> int:
        """Everything completed together so far."""
        return self._position.tick

    @property
    def replication(self) -> StepReplay | None:
        """None where newcomers cannot repeat the updates, say of several optimizers in turn."""
        optimizer, recipe = self.state.optimizer, self._recipe
        repeatable = can_follow(optimizer) and not recipe.phased
        scaled_away = recipe.scaled and not unscales_in_place(optimizer, self._setups.current.layout)
        return self._replay if repeatable and not scaled_away else None

    def signature(self) -> Mapping[str, Any]:
        """What must be equal between workers; further optimizers by their kinds and sizes."""
        more = [
            [type(setup.optimizer).__name__, *(list(p.shape) for p in setup.layout.parameters)]
            for setup in self._setups.all[1:]
        ]
        return {
            **self._host.versions,
            "parameters": self._setups.named_parameters(),
            "settings": {
                **self._hooks.settings,
                "accumulate": self._recipe.accumulate,
                "optimizer": type(self.state.optimizer).__name__,
                "optimizer_kernels": update_kinds(self.state.optimizer),
            },
            **({"more_optimizers": more} if more else {}),
        }

    def restore(self, generation: int = 0) -> None:
        """Go back to the latest checkpoint."""
        self._host.restore(generation)

    def stored_generation(self) -> int:
        """The latest generation that has left anything where checkpoints lie."""
        return self._host.stored()

    def rewind(self) -> None:
        """Put model buffers back to their values before the step under way; its forwards have changed them."""
        if self._hooks.under_way():
            self._setups.current.buffers.restore()

    def changed(self, change: Change) -> None:
        """Members have changed: the leader reports it, and the loop splits the batch anew."""
        self._reporter.resized()
        if self._membership.rank == 0:
            if change.kind == "start" and self._host.started is not None:
                self._reporter.emit(self._host.started())
            self._reporter.emit(self._resized(change))
        self._hooks.changed()

    def _resized(self, change: Change) -> Resized:
        return Resized(
            self._reporter.wall(),
            change.generation,
            change.kind,  # type: ignore[arg-type]
            change.before,
            change.after,
            self._position.step,
            change.pause_s,
            change.breakdown,
            change.shadow,
            redone_steps=int(change.kind == "recover" and self._hooks.under_way()),
        )
