"""A state that is taken over in the middle of a step is the one before the step."""

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
from elastane.train.worker.state_codec import unpack
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


def test_forwards_of_a_step_under_way_leave_no_trace_in_the_state_that_others_take_over() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = TrainingState()
    state.model, state.optimizer = model, optimizer
    settings, membership, recipe = LoopSettings(Mode.CONSISTENT, 0, 2), Membership(), Recipe(state)
    reporter = Reporter(lambda _: None, lambda: 0.0)
    recipe.enlist(lambda: optimizer.step() and None)
    agreement = Agreement(settings.mode, membership, reporter)
    loop = Loop(LoopParts(settings, recipe, membership, state, reporter, Position(), agreement))
    clean = {name: buffer.clone() for name, buffer in model.named_buffers()}
    assert loop.begin(Endless())
    assert loop.next_unit() is not None
    model(torch.randn(4, 3)).sum().backward()
    loop.unit_done()
    assert model[1].num_batches_tracked == 1
    loop.crew.rewind()
    taken = unpack(state.take())["model"]
    assert all(torch.equal(taken[name], buffer) for name, buffer in clean.items())
    # The step goes on, and counts once.
    assert loop.next_unit() is not None
    model(torch.randn(4, 3)).sum().backward()
    assert loop.unit_done()
    loop.crew.rewind()
    assert model[1].num_batches_tracked == 1
