"""A newcomer that follows becomes the donor's replica, bit for bit, while the donor goes on writing."""

from __future__ import annotations

import pytest
import torch

from elastane.train.errors import MembershipChanged
from elastane.train.worker.live_join import ShadowSender
from train.worker.replicas import OPTIMIZERS, STEPS_MAX, Donor, Follower, Make, join_while_training


@pytest.mark.parametrize("trained", [0, 3], ids=["before the first step", "in the middle"])
@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_a_follower_has_the_donors_bits_at_the_switch(make: Make, trained: int) -> None:
    join_while_training(make, trained)


def test_who_writes_into_the_gradients_of_a_finished_step_ends_the_stream() -> None:
    make = OPTIMIZERS["adamw"]
    donor, follower = Donor(make), Follower(make)
    sender = ShadowSender(follower.receiver.address, "word", donor.state, donor.layout)
    sender.boundary(donor.step)
    while not sender.problem and donor.step < STEPS_MAX:
        donor.train(sender)
        donor.optimizer.zero_grad(set_to_none=False)  # in place, while it is being sent
    assert "wrote into the gradients" in sender.problem
    assert isinstance(follower.wait(), MembershipChanged)


@pytest.mark.parametrize("how", ["clamped", "assigned", "in place"])
def test_a_script_that_changes_parameters_itself_cannot_be_followed(how: str) -> None:
    make = OPTIMIZERS["adamw"]
    donor, follower = Donor(make), Follower(make)
    sender = ShadowSender(follower.receiver.address, "word", donor.state, donor.layout)
    sender.boundary(donor.step)
    donor.train(sender)
    donor.train(sender)
    assert not sender.problem
    weight = donor.model[3].weight
    if how == "clamped":
        weight.data.clamp_(-1e-4, 1e-4)
    elif how == "assigned":
        weight.data = weight.data.clone()
    else:
        with torch.no_grad():
            weight.mul_(0.5)
    donor.train(sender)
    assert "the script changes parameters itself" in sender.problem
    assert isinstance(follower.wait(), MembershipChanged)


def test_a_cancelled_stream_ends_the_following() -> None:
    make = OPTIMIZERS["adamw"]
    donor, follower = Donor(make), Follower(make)
    sender = ShadowSender(follower.receiver.address, "word", donor.state, donor.layout)
    sender.boundary(donor.step)
    donor.train(sender)
    sender.cancel()
    sender.flush()
    assert sender.done
    assert isinstance(follower.wait(), MembershipChanged)


def test_a_donor_without_the_token_is_not_followed() -> None:
    make = OPTIMIZERS["adamw"]
    donor, follower = Donor(make), Follower(make)
    sender = ShadowSender(follower.receiver.address, "wrod", donor.state, donor.layout)
    sender.boundary(donor.step)
    assert isinstance(follower.wait(), MembershipChanged)
    sender.cancel()
