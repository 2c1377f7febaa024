"""Gradients that travel as bfloat16: the same bits on all workers, rounded twice and added up in float32."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import elastane.train as et
from elastane.train.errors import TrainError
from elastane.train.reduce.contract import Shares
from elastane.train.reduce.gradients import GradientLayout
from elastane.train.reduce.mean import MeanReducer
from elastane.train.reduce.narrow_sum import narrow_sum
from elastane.train.worker.group import Group
from fakegpu import ranks
from fakegpu.ranks import Meeting
from train.members import nccl_like, staged
from train.reduce.crew import Gloo, Toy, bits, crew, draw_gradients, step

EPSILON = 2.0**-8
"""Half of the distance between 1 and the next number, for each of two roundings."""


@given(st.integers(1, 40), st.integers(1, 5), st.integers(0, 2**32))
def test_sums_are_equal_on_all_workers_and_rounded_twice(size: int, world: int, seed: int) -> None:
    vectors = draw_gradients(world, size, seed)

    def work(group: Gloo) -> torch.Tensor:
        mine = vectors[group.rank].clone()
        narrow_sum(group, mine)
        return mine

    found = crew(world).run(work)
    assert len({bits(vector) for vector in found}) == 1
    bound = vectors.double().abs().sum(0) * EPSILON + vectors.double().sum(0).abs() * EPSILON
    assert bool(((found[0].double() - vectors.double().sum(0)).abs() <= bound * 1.01 + 1e-30).all())


def test_the_table_behind_the_gradients_is_not_rounded() -> None:
    def work(group: Gloo) -> list[float]:
        toy = Toy([(10,), (3, 4)])
        reducer = MeanReducer(toy.layout, narrow=True)
        tail = [0.0] * 3
        tail[group.rank] = float(2**24 - 1 - group.rank)
        vector = step(reducer, toy, Shares((1, 2, 3), (0, 1, 2)), group, draw_gradients(3, 22, 5), tail)
        assert not torch.equal(vector.gradients, vector.gradients.bfloat16().float().add(1))
        return vector.tail[:3].tolist()

    assert crew(3).run(work) == [[2.0**24 - 1, 2.0**24 - 2, 2.0**24 - 3]] * 3


def test_training_converges_as_with_whole_numbers() -> None:
    """A regression on three workers: the loss is as small, and the parameters are the same everywhere."""

    def work(group: Gloo, narrow: bool) -> tuple[float, bytes]:
        source = torch.Generator().manual_seed(7)
        x, wanted = torch.randn(30, 6, generator=source), torch.randn(6, 1, generator=source)
        weight = nn.Parameter(torch.zeros(6, 1))
        toy = Toy([(6, 1)])
        toy.parameters[0] = weight

        layout = GradientLayout([[weight]])
        reducer = MeanReducer(layout, narrow=narrow)
        opt = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        rows = slice(10 * group.rank, 10 * group.rank + 10)
        for _ in range(150):
            reducer.begin(Shares((10,) * 3, (0, 1, 2)), group.rank, False)
            reducer.start(group.rank)
            (x[rows] @ (weight - wanted)).square().mean().backward()
            reducer.finish(group.rank)
            reducer.tail_of(0)
            layout.publish(reducer.reduce(group, 0))
            opt.step()
        return float((x @ (weight.detach() - wanted)).square().mean()), bits(weight)

    for narrow in (False, True):
        found = crew(3).run(lambda group, narrow=narrow: work(group, narrow))
        assert len({weight for _, weight in found}) == 1
        assert found[0][0] < 1e-6


@pytest.mark.parametrize("fakegpu", ["late"], indirect=True)
@pytest.mark.parametrize("make", [staged, nccl_like])
def test_devices_give_the_bits_of_the_host(fakegpu: ModuleType, make: Any) -> None:
    vectors = draw_gradients(2, 2500, 3)

    def body(rank: int, meeting: Meeting) -> Any:
        group = Group(rank, 2, meeting, host="127.0.0.1")
        here, there = vectors[rank].clone(), vectors[rank].to("fakegpu:0")
        narrow_sum(group, here)
        transport = make(group, meeting)
        narrow_sum(transport.in_order, there)
        torch.accelerator.synchronize()
        transport.check()
        return torch.equal(here, there.cpu())

    assert ranks.run(2, body) == [True, True]


def test_consistent_mode_and_other_types_are_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TrainError, match="bf16 rounds gradients on their way, so consistent mode refuses it"):
        et.init("consistent", traffic="bf16")
    monkeypatch.setenv("ELASTANE_TRAFFIC", "bf16")
    with pytest.raises(TrainError, match="consistent mode refuses it"):
        et.init("consistent")
    with pytest.raises(TrainError, match=r"there is no 'bf61', did you mean|there is no 'bf61'"):
        et.init("fixed", traffic="bf61")
