"""Two sides of a shadow join, without the rest of a worker: a donor that trains, a newcomer that follows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from elastane.train.errors import MembershipChanged
from elastane.train.reduce.gradients import GradientLayout, GradientVector
from elastane.train.script.optimizer_hooks import gate_scaler
from elastane.train.worker.live_join import ShadowReceiver, ShadowSender
from elastane.train.worker.recipe import Recipe
from elastane.train.worker.replica_state import TrainingState

Make = Callable[[list[nn.Parameter]], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Make] = {
    "sgd with momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-3),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 1e-3),
}
WIDTH = 700
"""Parameters of about 2 MB: several pieces each, and more than a socket takes at once."""
STEPS_MAX = 2000


class Side:
    """One process's worth of model, optimizer and registry."""

    def __init__(self, make: Make, seed: int, device: str = "cpu") -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(6))).to(device)
        self.optimizer = make(list(self.model.parameters()))
        self.state = TrainingState()
        self.state.model, self.state.optimizer = self.model, self.optimizer
        self.layout = GradientLayout([group["params"] for group in self.optimizer.param_groups])

    def bits(self) -> list[Tensor]:
        """Everything that must be equal."""
        states = [self.optimizer.state[p] for p in self.model.parameters()]
        tensors = [v for state in states for v in state.values() if isinstance(v, Tensor)]
        return [*self.model.parameters(), *tensors]


class Donor(Side):
    """Trains on made-up gradients, always in the same vector, as a reducer does."""

    def __init__(self, make: Make, device: str = "cpu") -> None:
        super().__init__(make, 1, device)
        self.vector: GradientVector = self.layout.vector()
        self.chance = torch.Generator().manual_seed(7)
        self.step = 0

    def gradient(self) -> Tensor:
        """What the reduction gives."""
        return torch.randn(self.layout.size, generator=self.chance)

    def update(self) -> None:
        """Make the optimizer's step."""
        self.optimizer.step()

    def train(self, sender: ShadowSender | None) -> None:
        if sender is not None:
            sender.yield_gradients()
        self.vector.gradients.copy_(self.gradient())
        self.layout.publish(self.vector)
        if sender is not None:
            sender.yield_parameters()
        self.update()
        self.step += 1
        if sender is not None:
            groups = [{k: v for k, v in g.items() if k != "params"} for g in self.optimizer.param_groups]
            sender.applied(self.step, self.vector.gradients, groups)


class ScaledDonor(Donor):
    """Its loss is scaled, and every third gradient is not finite."""

    def __init__(self, make: Make, device: str = "cpu") -> None:
        super().__init__(make, device)
        self.scaler = torch.amp.GradScaler(device, init_scale=256.0, growth_interval=2)
        self.scaler.scale(torch.ones((), device=device))  # which is how it learns where it is
        self.recipe = Recipe(self.state)
        self.recipe.enlist(self.optimizer.step)
        self.left_out = 0
        gate_scaler(self.scaler, _Stepped(self.recipe, self.state))  # type: ignore[arg-type]

    def gradient(self) -> Tensor:
        """Scaled."""
        gradient = super().gradient() * self.scaler.get_scale()
        if self.step % 3 == 2:
            gradient[-1] = torch.inf
        return gradient

    def update(self) -> None:
        """Through the scaler."""
        self.recipe.raw_step()()
        self.left_out += self.recipe.left_out
        self.scaler.update()


@dataclass(frozen=True)
class _Stepped:
    """The part of a training that a gated loss scaler looks at, behind each step."""

    recipe: Recipe
    state: TrainingState
    stepped: bool = True


class Follower(Side):
    """Follows in a thread, from ``start`` on; a donor may connect before."""

    def __init__(self, make: Make, device: str = "cpu", *, starts: bool = True) -> None:
        super().__init__(make, 2, device)
        self.receiver = ShadowReceiver("127.0.0.1", "word")
        self.caught_up = threading.Event()
        self.result: int | MembershipChanged | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)
        if starts:
            self.start()

    def start(self) -> None:
        """Listen to the donor."""
        self._thread.start()

    def _follow(self) -> None:
        try:
            self.result = self.receiver.follow(
                self.state, self.layout, lambda: self.optimizer.step() and None, self.caught_up.set
            )
        except MembershipChanged as error:
            self.result = error

    def wait(self) -> int | MembershipChanged | None:
        self._thread.join(60.0)
        return self.result


def join_while_training(donor: Donor, make: Make, trained: int, device: str = "cpu") -> None:
    """A newcomer comes after so many steps, and has the donor's bits when it has caught up."""
    follower = Follower(make, device)
    for _ in range(trained):
        donor.train(None)
    left_out = (lambda: donor.recipe.left_out) if isinstance(donor, ScaledDonor) else (lambda: False)
    sender = ShadowSender(follower.receiver.address, "word", donor.state, donor.layout, left_out=left_out)
    sender.boundary(donor.step)
    # As fast as it can: on a CPU hardly anything is sent before its memory is needed again, and all of it is copied.
    while not follower.caught_up.is_set() and donor.step < STEPS_MAX:
        donor.train(sender)
        follower.caught_up.wait(0.02)
    sender.finish(donor.step)
    at = donor.step
    kept = [t.detach().clone() for t in donor.bits()]
    sender.yield_gradients()
    donor.vector.gradients.zero_()  # the training goes on
    assert follower.wait() == at
    assert not sender.problem
    assert all(same_bits(a, b) for a, b in zip(kept, follower.bits(), strict=True))


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Equal, and on the same device."""
    return a.device == b.device and torch.equal(a.cpu(), b.cpu())
