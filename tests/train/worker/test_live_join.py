"""A newcomer that follows becomes the donor's replica, bit for bit, while the donor goes on writing."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from elastane.train.errors import MembershipChanged
from elastane.train.reduce.gradients import GradientLayout
from elastane.train.worker.live_join import ShadowSender, unscales_in_place, update_kinds
from train.worker.replicas import OPTIMIZERS, STEPS_MAX, Donor, Follower, Make, ScaledDonor, join_while_training


@pytest.mark.parametrize("trained", [0, 3], ids=["before the first step", "in the middle"])
@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_a_follower_has_the_donors_bits_at_the_switch(make: Make, trained: int) -> None:
    join_while_training(Donor(make), make, trained)


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_steps_that_a_loss_scaler_makes_or_leaves_out_are_followed(make: Make) -> None:
    donor = ScaledDonor(make)
    join_while_training(donor, make, 3)
    assert 0 < donor.left_out < donor.step


@pytest.mark.parametrize(
    ("fused", "dtype", "followed"),
    [(False, torch.float32, True), (True, torch.float32, False), (False, torch.bfloat16, False)],
)
def test_what_is_not_unscaled_in_the_reduced_gradient_cannot_be_followed(
    fused: bool, dtype: torch.dtype, followed: bool
) -> None:
    parameter = nn.Parameter(torch.ones(3, dtype=dtype))
    optimizer = torch.optim.AdamW([parameter], fused=fused)
    assert unscales_in_place(optimizer, GradientLayout([[parameter]])) is followed


def test_replicas_need_the_same_kernels() -> None:
    kinds = [
        update_kinds(torch.optim.AdamW([nn.Parameter(torch.ones(1))], **given))
        for given in ({}, {"foreach": True}, {"fused": True})
    ]
    assert kinds == [[[None, None, False]], [[True, None, False]], [[None, True, False]]]


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
