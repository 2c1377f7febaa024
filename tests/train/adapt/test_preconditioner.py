"""Norms in the optimizer's metric: identity for SGD, Adam's own diagonal for Adam and its kin."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from elastane.train.adapt.preconditioner import YOUNGEST, Preconditioner, is_adaptive, reset_moments
from elastane.train.reduce.gradients import GradientLayout

Optimizer = torch.optim.Optimizer


def trained(
    make: Callable[[list[dict[str, object]]], Optimizer], steps: int
) -> tuple[GradientLayout, Optimizer]:
    """A small model in two parameter groups after some steps on random gradients."""
    torch.manual_seed(3)
    first, second = nn.Linear(4, 3), nn.Linear(3, 2)
    optimizer = make([{"params": list(first.parameters())}, {"params": list(second.parameters()), "eps": 1e-3}])
    layout = GradientLayout([group["params"] for group in optimizer.param_groups])
    for _ in range(steps):
        for parameter in layout.parameters:
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()
    return layout, optimizer


def test_sgd_norms_are_those_of_the_gradient_itself() -> None:
    layout, optimizer = trained(lambda groups: torch.optim.SGD([{**g, "momentum": 0.9} for g in groups]), 7)
    metric = Preconditioner(layout, optimizer)
    metric.refresh()
    vector = torch.randn(layout.size)
    assert not metric.active
    for found, group in zip(metric.square_norms(vector), layout.groups, strict=True):
        assert found == pytest.approx(float(vector[group].double().square().sum()), rel=1e-6)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam, torch.optim.RAdam])
def test_adam_and_its_kin_divide_by_the_corrected_second_moment(kind: type[Optimizer]) -> None:
    layout, optimizer = trained(lambda groups: kind(groups, betas=(0.9, 0.97)), 9)  # type: ignore[call-arg]
    metric = Preconditioner(layout, optimizer)
    metric.refresh()
    vector = torch.randn(layout.size)
    assert metric.active
    expected = []
    at = 0
    for group in optimizer.param_groups:
        norm = 0.0
        for parameter in group["params"]:
            v = optimizer.state[parameter]["exp_avg_sq"].double().flatten()
            gradient = vector[at : at + parameter.numel()].double()
            norm += float((gradient / ((v / (1 - 0.97**9)).sqrt() + group["eps"])).square().sum())
            at += parameter.numel()
        expected.append(norm)
    assert metric.square_norms(vector) == pytest.approx(expected, rel=1e-5)


def test_amsgrad_uses_the_maximum_it_divides_by() -> None:
    layout, optimizer = trained(lambda groups: torch.optim.Adam(groups, amsgrad=True), 6)
    for state in optimizer.state.values():
        state["max_exp_avg_sq"].fill_(4.0 * (1 - 0.999**6))
        state["exp_avg_sq"].fill_(1e-9)
    metric = Preconditioner(layout, optimizer)
    metric.refresh()
    first = metric.square_norms(torch.ones(layout.size))[0]
    assert first == pytest.approx(15 / 4.0, rel=1e-5)


@pytest.mark.parametrize(("steps", "active"), [(YOUNGEST - 1, False), (YOUNGEST, True)])
def test_young_moments_are_not_believed(steps: int, active: bool) -> None:
    layout, optimizer = trained(torch.optim.Adam, steps)
    metric = Preconditioner(layout, optimizer)
    metric.refresh()
    assert metric.active is active


def test_a_parameter_thawed_late_keeps_the_plain_norm_for_its_first_steps() -> None:
    layout, optimizer = trained(torch.optim.Adam, 6)
    young = next(iter(layout.parameters))
    optimizer.state[young]["step"].fill_(2)
    metric = Preconditioner(layout, optimizer)
    metric.refresh()
    alone = torch.zeros(layout.size)
    alone[: young.numel()] = 1.0
    assert metric.square_norms(alone)[0] == young.numel()


def test_an_element_that_never_had_a_gradient_is_left_out_and_does_not_drown_the_rest() -> None:
    words = nn.Embedding(4, 2)
    optimizer = torch.optim.Adam(words.parameters())
    for _ in range(6):
        optimizer.zero_grad()
        words(torch.tensor([0, 1, 2])).sum().backward()
        optimizer.step()
    layout = GradientLayout([list(words.parameters())])
    metric = Preconditioner(layout, optimizer)
    metric.refresh()
    assert metric.square_norms(torch.ones(8))[0] == pytest.approx(6.0, rel=1e-4)


def test_the_metric_follows_the_optimizer_also_after_its_state_was_loaded() -> None:
    layout, optimizer = trained(torch.optim.Adam, 6)
    metric = Preconditioner(layout, optimizer)
    metric.refresh()
    before = metric.square_norms(torch.ones(layout.size))
    saved = optimizer.state_dict()
    for state in saved["state"].values():
        state["exp_avg_sq"] = state["exp_avg_sq"] * 4
    optimizer.load_state_dict(saved)
    assert metric.square_norms(torch.ones(layout.size)) == before
    metric.refresh()
    after = metric.square_norms(torch.ones(layout.size))
    assert after[0] == pytest.approx(before[0] / 4, rel=1e-3)


def test_norms_of_long_vectors_do_not_lose_digits() -> None:
    long = nn.Parameter(torch.zeros(4_000_000))
    layout = GradientLayout([[long]])
    metric = Preconditioner(layout, torch.optim.SGD([long]))
    vector: Tensor = torch.randn(4_000_000, generator=torch.Generator().manual_seed(0))
    exact = float(vector.double().square().sum())
    assert metric.square_norms(vector)[0] == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.NAdam])
def test_a_reset_optimizer_steps_as_a_new_one(kind: Callable[[list[dict[str, object]]], Optimizer]) -> None:
    layout, optimizer = trained(kind, 8)
    reset_moments(optimizer)
    fresh_parameters = [nn.Parameter(p.detach().clone()) for p in layout.parameters]
    fresh = kind([{"params": fresh_parameters[:2]}, {"params": fresh_parameters[2:], "eps": 1e-3}])
    for old, new in zip(layout.parameters, fresh_parameters, strict=True):
        old.grad = torch.full_like(old, 0.5)
        new.grad = torch.full_like(new, 0.5)
    optimizer.step()
    fresh.step()
    for old, new in zip(layout.parameters, fresh_parameters, strict=True):
        assert torch.equal(old, new)


def test_a_reset_leaves_momentum_of_other_optimizers_alone() -> None:
    layout, optimizer = trained(
        lambda groups: torch.optim.SGD([{"params": g["params"], "momentum": 0.9} for g in groups]), 3
    )
    before = [optimizer.state[p]["momentum_buffer"].clone() for p in layout.parameters]
    reset_moments(optimizer)
    after = [optimizer.state[p]["momentum_buffer"] for p in layout.parameters]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_adaptive_optimizers_are_told_apart_before_their_first_step() -> None:
    parameter = [nn.Parameter(torch.zeros(1))]
    assert is_adaptive(torch.optim.AdamW(parameter))
    assert not is_adaptive(torch.optim.SGD(parameter, lr=0.1, momentum=0.9))
