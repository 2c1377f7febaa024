"""A newcomer follows a donor whose state is on a device: same bits, whatever the order in which streams run."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from elastane.train.errors import MembershipChanged
from elastane.train.worker.host_copies import HostCopies
from elastane.train.worker.live_join import ShadowSender
from elastane.train.worker.live_join.copy_budget import FIRST_BYTES, LEAST_BYTES, MOST_BYTES, SHARE, CopyBudget
from train.worker.replicas import OPTIMIZERS, Donor, Follower, Make, ScaledDonor, join_while_training, same_bits

D = "fakegpu"
on_late = pytest.mark.parametrize("fakegpu", ["late"], indirect=True)
MAKES: dict[str, Make] = {
    "sgd with momentum": OPTIMIZERS["sgd with momentum"],
    "adamw": OPTIMIZERS["adamw"],
    "nadam, which keeps two numbers on the host": lambda p: torch.optim.NAdam(p, 1e-3),
    "adamw in one fused kernel": lambda p: torch.optim.AdamW(p, 1e-3, fused=True),
    "adamw, which counts steps on the device": lambda p: torch.optim.AdamW(p, 1e-3, capturable=True),
}


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES.keys())
def test_a_follower_has_the_donors_bits_at_the_switch(fakegpu: ModuleType, make: Make) -> None:
    join_while_training(Donor(make, D), make, 3, D)


def test_a_follower_that_comes_before_the_first_step_has_them_too(fakegpu: ModuleType) -> None:
    make = OPTIMIZERS["adamw"]
    join_while_training(Donor(make, D), make, 0, D)


def test_steps_that_a_loss_scaler_makes_or_leaves_out_are_followed(fakegpu: ModuleType) -> None:
    make = OPTIMIZERS["adamw"]
    donor = ScaledDonor(make, D)
    join_while_training(donor, make, 3, D)
    assert 0 < donor.left_out < donor.step


def late_join(donor: Donor, follower: Follower) -> bool:
    """The newcomer listens only after some steps, so that no copy is waited for before it is overwritten."""
    sender = ShadowSender(follower.receiver.address, "word", donor.state, donor.layout)
    sender.boundary(donor.step)
    for _ in range(40):
        donor.train(sender)
    sender.finish(donor.step)
    kept = [t.detach().clone() for t in donor.bits()]
    sender.yield_gradients()
    donor.vector.gradients.zero_()
    follower.start()
    came = follower.wait()
    assert not sender.problem
    if isinstance(came, MembershipChanged):
        assert "differs" in str(came)
        return False
    return all(same_bits(a, b) for a, b in zip(kept, follower.bits(), strict=True))


@on_late
@pytest.mark.parametrize("waits", [True, False], ids=["as it is", "without the event"])
def test_what_is_copied_is_not_overwritten_before(
    fakegpu: ModuleType, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    if not waits:
        monkeypatch.setattr(HostCopies, "hold_back", lambda _: None)
    make = OPTIMIZERS["adamw"]
    assert late_join(Donor(make, D), Follower(make, D, starts=False)) is waits


@on_late
def test_who_writes_into_the_gradients_of_a_finished_step_ends_the_stream(fakegpu: ModuleType) -> None:
    make = OPTIMIZERS["adamw"]
    donor, follower = Donor(make, D), Follower(make, D, starts=False)
    sender = ShadowSender(follower.receiver.address, "word", donor.state, donor.layout)
    sender.boundary(donor.step)
    for _ in range(2):
        donor.train(sender)
        donor.optimizer.zero_grad(set_to_none=False)  # in place, while it is being copied
    follower.start()
    assert isinstance(follower.wait(), MembershipChanged)
    assert "wrote into the gradients" in sender.problem


@on_late
def test_a_script_that_changes_parameters_itself_cannot_be_followed(fakegpu: ModuleType) -> None:
    make = OPTIMIZERS["adamw"]
    donor, follower = Donor(make, D), Follower(make, D)
    sender = ShadowSender(follower.receiver.address, "word", donor.state, donor.layout)
    sender.boundary(donor.step)
    donor.train(sender)
    assert not sender.problem
    donor.model[3].weight.data.clamp_(-1e-4, 1e-4)  # type: ignore[union-attr]
    donor.train(sender)
    assert "the script changes parameters itself" in sender.problem
    assert isinstance(follower.wait(), MembershipChanged)


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_copying_takes_its_share_of_a_step() -> None:
    clock = Clock()
    budget = CopyBudget(clock)
    assert budget.at_boundary() == FIRST_BYTES  # nothing is known
    budget.copied(LEAST_BYTES, 0.01)
    clock.now_s = 1.0
    assert budget.at_boundary() == int(SHARE * 1.0 * LEAST_BYTES / 0.01)


def test_a_boundary_that_copied_too_much_is_made_up_for() -> None:
    budget = CopyBudget(Clock())
    budget.at_boundary()
    budget.spend(3 * FIRST_BYTES)
    assert [budget.at_boundary() for _ in range(4)] == [-FIRST_BYTES, 0, FIRST_BYTES, FIRST_BYTES]


def test_many_small_copies_tell_the_speed_as_one_large_one_does() -> None:
    """Their beginnings are part of it: a model of small parameters would else copy as if they took no time."""
    clock = Clock()
    budget = CopyBudget(clock)
    budget.at_boundary()
    clock.now_s = 1.0
    for _ in range(64):
        budget.copied(LEAST_BYTES // 64, 0.001)
    assert budget.at_boundary() == LEAST_BYTES  # 5 % of a second at 16 MB/s is less
    clock.now_s = 11.0
    assert budget.at_boundary() > 2 * LEAST_BYTES


@on_late
def test_optimizer_state_is_copied_within_the_budget(fakegpu: ModuleType) -> None:
    """Three numbers per parameter of AdamW; pieces are larger than the share of a boundary."""
    make = OPTIMIZERS["adamw"]
    donor, follower = Donor(make, D), Follower(make, D, starts=False)
    donor.train(None)
    sender = ShadowSender(follower.receiver.address, "word", donor.state, donor.layout)
    sizes: list[int] = []
    spend = sender._budget.spend

    def spending(nbytes: int) -> int:
        sizes.append(nbytes)
        return spend(nbytes)

    sender._budget.spend = spending  # type: ignore[method-assign]
    boundaries = 4
    for step in range(boundaries):
        sender.boundary(donor.step + step)
    whole = [3 * place.parameter.nbytes for place in donor.layout.places]
    assert all(size >= least for size, least in zip(sizes, whole, strict=False))
    assert max(whole) > FIRST_BYTES
    assert boundaries * FIRST_BYTES - max(whole) < sum(sizes) < boundaries * FIRST_BYTES + max(whole)
    sender.cancel()


def test_a_share_has_limits_and_one_small_copy_says_nothing_of_speed() -> None:
    clock = Clock()
    budget = CopyBudget(clock)
    budget.at_boundary()
    clock.now_s = 1.0
    budget.copied(100, 1.0)
    assert budget.at_boundary() == FIRST_BYTES
    budget.copied(LEAST_BYTES, 10.0)
    assert budget.at_boundary() == LEAST_BYTES
    for _ in range(20):
        budget.copied(MOST_BYTES, 1e-3)
    clock.now_s = 100.0
    assert budget.at_boundary() == MOST_BYTES
