"""The plain mean: right for any shares, sum exact for tails, nothing kept of a broken step."""

from __future__ import annotations

import random

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elastane.train.errors import MembershipChanged
from elastane.train.reduce.contract import Shares
from elastane.train.reduce.mean import MeanReducer
from train.reduce.crew import Breaking, Gloo, Toy, bits, compute, crew, draw_gradients, step

COUNTS = st.lists(st.integers(0, 9), min_size=1, max_size=9).map(tuple).filter(any)


def weighted_mean(gradients: Tensor, counts: tuple[int, ...]) -> Tensor:
    weights = torch.tensor(counts, dtype=torch.float64)
    return (gradients.double() * weights[:, None]).sum(0) / weights.sum()


@given(COUNTS, st.integers(1, 6), st.booleans(), st.integers(0, 2**32))
def test_the_result_is_the_sample_weighted_mean_and_the_same_everywhere(
    counts: tuple[int, ...], world: int, observed: bool, seed: int
) -> None:
    source = random.Random(seed)
    shares = Shares(counts, tuple(source.randrange(world) for _ in counts))
    gradients = draw_gradients(len(counts), 40, seed, torch.float64)

    def work(group: Gloo) -> Tensor:
        toy = Toy([(10,), (5, 6)], torch.float64)
        reducer = MeanReducer(toy.layout, observe=(lambda vector: None) if observed else None)
        step(reducer, toy, shares, group, gradients.flip(0))
        return step(reducer, toy, shares, group, gradients).gradients.clone()

    found = crew(world).run(work)
    assert len({bits(gradient) for gradient in found}) == 1
    bound = 1e-14 * weighted_mean(gradients.abs(), counts)
    assert bool(((found[0] - weighted_mean(gradients, counts)).abs() <= bound).all())


@given(COUNTS, st.integers(0, 2**32))
def test_every_raw_gradient_is_shown_once(counts: tuple[int, ...], seed: int) -> None:
    toy, seen = Toy([(10,), (5, 6)]), []
    gradients = draw_gradients(len(counts), 40, seed)
    reducer = MeanReducer(toy.layout, observe=lambda vector: seen.append(bits(vector)))
    step(reducer, toy, Shares(counts, (0,) * len(counts)), None, gradients)
    assert seen == [bits(gradients[unit]) for unit, count in enumerate(counts) if count]


def test_one_unit_of_one_worker_is_left_as_it_is() -> None:
    toy = Toy([(10,)])
    gradients = draw_gradients(1, 10, seed=1)
    found = step(MeanReducer(toy.layout), toy, Shares((7,), (0,)), None, gradients)
    assert bits(found.gradients) == bits(gradients[0])


def test_tails_are_summed_exactly_also_from_workers_without_units() -> None:
    shares = Shares((3, 0), (0, 2))
    gradients = draw_gradients(2, 10, seed=2)

    def work(group: Gloo) -> list[float]:
        toy = Toy([(10,)])
        tail = [0.0] * 4
        tail[group.rank] = float(2**24 - group.rank)
        vector = step(MeanReducer(toy.layout), toy, shares, group, gradients, tail)
        assert torch.equal(vector.gradients, gradients[0])
        return vector.tail[:4].tolist()

    for found in crew(4).run(work):
        assert found == [float(2**24 - rank) for rank in range(4)]


def test_an_overflow_does_not_outlive_its_step() -> None:
    # A worker that had NaN in one step and has no unit in the next adds zero, not NaN.
    gradients = draw_gradients(2, 10, seed=4)

    def work(group: Gloo) -> Tensor:
        toy = Toy([(10,)])
        reducer = MeanReducer(toy.layout)
        step(reducer, toy, Shares((3, 3), (0, 1)), group, torch.full((2, 10), torch.nan))
        return step(reducer, toy, Shares((3, 0), (0, 1)), group, gradients).gradients.clone()

    assert all(torch.equal(found, gradients[0]) for found in crew(2).run(work))


def test_a_broken_step_begins_from_nothing() -> None:
    gradients = draw_gradients(4, 10, seed=3)
    toys = [Toy([(10,)]) for _ in range(4)]
    reducers = [MeanReducer(toy.layout) for toy in toys]

    def broken(group: Gloo) -> None:
        reducer = reducers[group.rank]
        reducer.begin(Shares((5,) * 4, (0, 1, 2, 3)), group.rank, again=False)
        compute(reducer, toys[group.rank], [group.rank], gradients)
        try:
            reducer.reduce(Breaking(group, survives=0), 0)
        except MembershipChanged:
            return
        raise AssertionError("the group should have broken")

    def resumed(group: Gloo) -> Tensor:
        shares = Shares((10, 10), (0, 1))
        reducer = reducers[group.rank]
        reducer.begin(shares, group.rank, again=True)
        assert reducer.finished == frozenset()
        return step(reducer, toys[group.rank], shares, group, gradients, again=True).gradients.clone()

    crew(4).run(broken)
    for found in crew(2).run(resumed):
        assert torch.allclose(found, gradients[:2].mean(0))
