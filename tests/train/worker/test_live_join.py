"""A newcomer that follows becomes the donor's replica, bit for bit, while the donor goes on writing."""

from __future__ import annotations

import socket

import pytest
import torch
from torch import nn

from elastane.train.coordinator.wire import address
from elastane.train.errors import MembershipChanged
from elastane.train.reduce.gradients import GradientLayout
from elastane.train.worker.live_join import ShadowSender, receiver, unscales_in_place, update_kinds
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


def test_a_donor_without_the_token_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "DONOR_S", 0.5)
    make = OPTIMIZERS["adamw"]
    donor, follower = Donor(make), Follower(make)
    sender = ShadowSender(follower.receiver.address, "wrod", donor.state, donor.layout)
    sender.boundary(donor.step)
    raised = follower.wait()
    assert isinstance(raised, MembershipChanged)
    assert "only strangers" in str(raised)
    sender.cancel()


@pytest.mark.parametrize("words", [b"GET / HTTP/1.0\r\n\r\n", b'{"type":"login","role":"shadow"}\n', b""])
def test_strangers_who_come_before_the_donor_do_not_call_the_join_off(words: bytes) -> None:
    make = OPTIMIZERS["adamw"]
    donor, follower = Donor(make), Follower(make)
    for _ in range(3):
        with socket.create_connection(address(follower.receiver.address)) as stranger:
            stranger.sendall(words)
    sender = ShadowSender(follower.receiver.address, "word", donor.state, donor.layout)
    sender.boundary(donor.step)
    while not follower.caught_up.is_set() and follower.result is None and donor.step < STEPS_MAX:
        donor.train(sender)
        follower.caught_up.wait(0.02)
    assert follower.caught_up.is_set()
    sender.cancel()
    sender.flush()
    follower.wait()


def test_strangers_are_bounded_in_number_and_a_join_can_be_called_off_among_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receiver, "STRANGERS", 3)
    for strangers, words in ((3, "only strangers"), (1, "called off")):
        follower = Follower(OPTIMIZERS["adamw"])
        for _ in range(strangers):
            socket.create_connection(address(follower.receiver.address)).close()
        if strangers == 1:
            follower.receiver.interrupt()
        raised = follower.wait()
        assert isinstance(raised, MembershipChanged)
        assert words in str(raised)
