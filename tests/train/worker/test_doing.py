"""What a worker says it does is what the rules for hung and stray members take it for."""

from __future__ import annotations

import torch
from torch import nn

from elastane.train.worker.batch_split import Mode
from elastane.train.worker.consensus import Agreement
from elastane.train.worker.loop import Loop, LoopParts
from elastane.train.worker.membership import Membership
from elastane.train.worker.position import Position
from elastane.train.worker.recipe import Recipe
from elastane.train.worker.replica_state import TrainingState
from elastane.train.worker.step_cut import LoopSettings
from elastane.train.worker.telemetry import Reporter


class Endless:
    """A loader that always has more."""

    name, batch_size, adapts = "data", 4, False
    place, entered_inside = "data", False

    def available(self, samples: int) -> int:
        return samples

    def advance(self, samples: int, *, skipped: bool = False) -> None:
        pass


class Heard(Membership):
    """Keeps what was said last."""

    said = ""

    def doing(self, what: str, step: int) -> None:
        self.said = what


def test_a_slow_optimizer_is_not_taken_for_a_wait_in_a_step_that_others_have_left() -> None:
    """Others may be in ``job.evaluate`` behind the step meanwhile: they are not apart."""
    model, membership = nn.Linear(3, 2), Heard()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    heard = []

    def step() -> None:
        heard.append(membership.said)
        optimizer.step()

    state = TrainingState()
    state.model, state.optimizer = model, optimizer
    settings, recipe, reporter = (
        LoopSettings(Mode.FIXED, 0, 0),
        Recipe(state),
        Reporter(lambda _: None, lambda: 0.0),
    )
    recipe.enlist(step)
    agreement = Agreement(settings.mode, membership, reporter)
    loop = Loop(LoopParts(settings, recipe, membership, state, reporter, Position(), agreement))
    assert loop.begin(Endless())
    assert loop.next_unit() is not None
    model(torch.randn(4, 3)).sum().backward()
    assert loop.unit_done()
    assert heard == ["outside"]
