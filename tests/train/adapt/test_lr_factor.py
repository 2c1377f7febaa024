"""The learning rate: multiplied for one step only, per group, invisible to schedulers; progress adds up."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from elastane.models.learning_rate import StepContext, adam, adascale, linear
from elastane.train.adapt.lr_factor import LearningRate
from elastane.train.errors import TrainError


def two_groups(first: float = 0.1, second: float = 0.02) -> torch.optim.SGD:
    parameters = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))]
    groups: list[dict[str, Any]] = [{"params": parameters[:1]}, {"params": parameters[1:], "lr": second}]
    return torch.optim.SGD(groups, lr=first)


def test_each_group_steps_with_its_own_gain() -> None:
    optimizer = two_groups()
    for group in optimizer.param_groups:
        group["params"][0].grad = torch.ones(2)
    rate = LearningRate(adascale, optimizer)
    with rate.scaled(StepContext(4.0, (2.0, 3.0))):
        optimizer.step()
    moved = [float(group["params"][0][0].detach()) for group in optimizer.param_groups]
    assert moved == pytest.approx([-0.1 * 2, -0.02 * 3])
    assert rate.factor == pytest.approx(2.5)


def test_adam_takes_the_root_of_each_gain() -> None:
    rate = LearningRate(adam, two_groups())
    assert rate.factors(StepContext(9.0, (4.0, 9.0))) == (2.0, 3.0)


@given(st.floats(1e-6, 10.0), st.floats(0.1, 64.0))
def test_the_rate_is_exactly_what_it_was_after_the_step(lr: float, scale: float) -> None:
    optimizer = two_groups(lr, lr / 3)
    before = [group["lr"] for group in optimizer.param_groups]
    with LearningRate(linear, optimizer).scaled(StepContext(scale, (1.0, 1.0))):
        assert optimizer.param_groups[0]["lr"] == lr * scale
    assert [group["lr"] for group in optimizer.param_groups] == before


def test_the_rate_comes_back_also_when_the_step_fails() -> None:
    optimizer = two_groups()
    rate = LearningRate(linear, optimizer)
    with pytest.raises(ZeroDivisionError), rate.scaled(StepContext(8.0)):
        raise ZeroDivisionError
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert rate.factor == 1.0


def test_a_rate_held_in_a_tensor_is_the_same_tensor_again() -> None:
    held = torch.tensor(0.1)
    optimizer = torch.optim.Adam([nn.Parameter(torch.zeros(1))], lr=held)
    with LearningRate(linear, optimizer).scaled(StepContext(2.0)):
        assert float(optimizer.param_groups[0]["lr"]) == pytest.approx(0.2)
    assert optimizer.param_groups[0]["lr"] is held
    assert float(held) == pytest.approx(0.1)


@pytest.mark.parametrize(
    "make",
    [
        lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9),
        lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20),
        lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.5, total_steps=20),
    ],
)
def test_schedulers_run_as_if_nothing_were_scaled(make) -> None:  # type: ignore[no-untyped-def]
    plain, scaled = two_groups(), two_groups()
    schedules = make(plain), make(scaled)
    rate = LearningRate(linear, scaled)
    for _ in range(10):
        plain.step()
        with rate.scaled(StepContext(3.0, (1.0, 1.0))):
            scaled.step()
        for schedule in schedules:
            schedule.step()
        assert [g["lr"] for g in scaled.param_groups] == [g["lr"] for g in plain.param_groups]


def test_one_factor_serves_all_groups_but_a_wrong_number_is_refused() -> None:
    rate = LearningRate(adascale, two_groups())
    assert rate.factors(StepContext(2.0, (1.5,))) == (1.5, 1.5)
    with pytest.raises(TrainError, match="3 factors for an optimizer of 2"):
        rate.factors(StepContext(2.0, (1.0, 1.0, 1.0)))


def test_progress_is_the_sum_of_gains() -> None:
    rate = LearningRate(adascale, two_groups())
    for gain in (1.0, 2.5, 2.5):
        rate.advance(gain)
    assert rate.progress == 6.0
