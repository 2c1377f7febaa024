"""The same bits whoever computes a unit, and however often the group breaks."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from elastane.train.errors import MembershipChanged
from elastane.train.reduce.contract import Shares
from elastane.train.reduce.gradients import GradientLayout
from elastane.train.reduce.mean import MeanReducer
from elastane.train.reduce.ordered import OrderedReducer
from train.reduce.crew import Breaking, Gloo, Toy, bits, compute, crew, draw_gradients, step


@dataclass(frozen=True)
class Case:
    """A step: samples of each unit, shapes of the parameters, the units' gradients."""

    counts: tuple[int, ...]
    shapes: list[tuple[int, ...]]
    gradients: Tensor

    @property
    def units(self) -> int:
        return len(self.counts)

    @property
    def toy(self) -> Toy:
        return Toy(self.shapes, self.gradients.dtype)


@st.composite
def cases(draw: st.DrawFn, dtype: torch.dtype = torch.float32) -> Case:
    units = draw(st.integers(1, 17))
    even = st.integers(1, 9).map(lambda n: (n,) * units)
    uneven = st.lists(st.integers(0, 9), min_size=units, max_size=units).map(tuple)
    counts = draw(st.one_of(even, uneven.filter(any)))
    side = st.integers(1, 12)
    shapes = draw(st.lists(st.one_of(st.tuples(side), st.tuples(side, side)), min_size=1, max_size=4))
    size = sum(torch.Size(shape).numel() for shape in shapes)
    return Case(counts, shapes, draw_gradients(units, size, draw(st.integers(0, 2**32)), dtype))


def owners(units: int, world: int, source: random.Random) -> tuple[int, ...]:
    """Runs of any length for each rank in turn, or no order at all."""
    if source.random() < 0.5:
        cuts = sorted(source.choices(range(units + 1), k=world - 1))
        return tuple(sum(unit >= cut for cut in cuts) for unit in range(units))
    return tuple(source.randrange(world) for _ in range(units))


def by_definition(case: Case) -> Tensor:
    """The tree written as a recursion, without any of the code under test."""
    even = len(set(case.counts)) == 1

    def total(start: int, stop: int) -> Tensor | None:
        if stop - start == 1:
            count = case.counts[start]
            return (case.gradients[start] if even else case.gradients[start] * count) if count else None
        half = 2 ** ((stop - start - 1).bit_length() - 1)
        left, right = total(start, start + half), total(start + half, stop)
        return right if left is None else left if right is None else left + right

    whole = total(0, case.units)
    assert whole is not None
    return whole / (case.units if even else sum(case.counts))


def ordered(case: Case, world: int, owner: tuple[int, ...], tails: list[list[float]]) -> list[Tensor]:
    """Gradients and tail as every worker gets them."""

    def work(group: Gloo) -> Tensor:
        toy = case.toy
        reducer = OrderedReducer(toy.layout, case.units)
        tail = tails[group.rank]
        vector = step(reducer, toy, Shares(case.counts, owner), group, case.gradients, tail)
        return vector.full[: toy.layout.size + len(tail)].clone()

    return crew(world).run(work)


@given(cases(), st.integers(0, 2**32))
def test_bits_are_the_same_for_every_number_of_workers_and_every_owner(case: Case, seed: int) -> None:
    source = random.Random(seed)
    expected = bits(by_definition(case))
    toy = case.toy
    alone = step(
        OrderedReducer(toy.layout, case.units),
        toy,
        Shares(case.counts, (0,) * case.units),
        None,
        case.gradients,
    )
    assert bits(alone.gradients) == expected
    for world in range(1, 7):
        none: list[list[float]] = [[]] * world
        found = ordered(case, world, owners(case.units, world, source), none)
        assert {bits(gradient) for gradient in found} == {expected}


@given(cases(torch.float64), st.integers(1, 6), st.integers(0, 2**32))
def test_the_result_is_the_sample_weighted_mean(case: Case, world: int, seed: int) -> None:
    counts = torch.tensor(case.counts, dtype=torch.float64)
    weighted = case.gradients * counts[:, None]
    exact = weighted.sum(0) / counts.sum()
    bound = 1e-14 * weighted.abs().sum(0) / counts.sum()
    owner = owners(case.units, world, random.Random(seed))
    for found in ordered(case, world, owner, [[]] * world):
        assert bool(((found - exact).abs() <= bound).all())


def test_a_plain_mean_depends_on_the_number_of_workers() -> None:
    # Without this difference equal bits would prove nothing.
    gradients = draw_gradients(8, 500, seed=1)
    found = set()
    for world in (1, 2, 4):
        shares = Shares((3,) * 8, tuple(unit * world // 8 for unit in range(8)))

        def work(group: Gloo, shares: Shares = shares) -> bytes:
            toy = Toy([(500,)])
            return bits(step(MeanReducer(toy.layout), toy, shares, group, gradients).gradients)

        found |= set(crew(world).run(work))
    assert len(found) == 3


@given(cases(), st.integers(1, 6), st.integers(0, 30), st.integers(0, 2**32))
def test_tails_are_summed_exactly(case: Case, world: int, slots: int, seed: int) -> None:
    source = random.Random(seed)
    tails = [[0.0] * (slots * world) for _ in range(world)]
    for rank, tail in enumerate(tails):
        tail[rank * slots : (rank + 1) * slots] = [float(source.randrange(2**24)) for _ in range(slots)]
    owner = owners(case.units, world, source)
    for found in ordered(case, world, owner, tails):
        size = case.gradients.shape[1]
        assert found[size:].tolist() == [sum(column) for column in zip(*tails, strict=True)]
        assert bits(found[:size]) == bits(by_definition(case))


@given(cases(), st.integers(1, 6), st.integers(1, 6), st.integers(0, 4), st.integers(0, 2**32))
def test_a_step_that_broke_ends_with_the_same_bits(
    case: Case, before: int, after: int, survives: int, seed: int
) -> None:
    source = random.Random(seed)
    expected = bits(by_definition(case))
    toys = [case.toy for _ in range(max(before, after))]
    reducers = [OrderedReducer(toy.layout, case.units) for toy in toys]
    first = Shares(case.counts, owners(case.units, before, source))
    second = Shares(case.counts, owners(case.units, after, source))
    partial = source.random() < 0.5

    def broken(group: Gloo) -> None:
        reducer, owned = reducers[group.rank], first.owned_by(group.rank)
        reducer.begin(first, group.rank, again=False)
        if partial:
            done = owned[: len(owned) // 2]
            compute(reducer, toys[group.rank], done, case.gradients)
        elif group.world > 1:
            compute(reducer, toys[group.rank], owned, case.gradients)
            rounds = len({u for u in range(case.units) if case.counts[u]})
            reach = min(survives, rounds)
            with_tail = reducer.tail_of(5).fill_(float(group.rank))
            try:
                reducer.reduce(Breaking(group, reach), len(with_tail))
            except MembershipChanged:
                return
            reducer.begin(first, group.rank, again=False)

    def resumed(group: Gloo) -> bytes:
        reducer, toy = reducers[group.rank], toys[group.rank]
        again = group.rank < before
        return bits(step(reducer, toy, second, group, case.gradients, again=again).gradients)

    crew(before).run(broken)
    assert set(crew(after).run(resumed)) == {expected}


def test_finished_blocks_survive_as_far_as_their_units_are_still_owned() -> None:
    toy = Toy([(3,)])
    gradients = draw_gradients(8, 3, seed=2)
    reducer = OrderedReducer(toy.layout, 8)
    reducer.begin(Shares((2,) * 8, (0, 0, 0, 0, 0, 1, 1, 1)), 0, again=False)
    compute(reducer, toy, [0, 1, 2], gradients)
    assert reducer.finished == {0, 1, 2}
    # Unit 1 is lost, and with it unit 0: they were one sum already.
    reducer.begin(Shares((2,) * 8, (0, 1, 0, 0, 1, 1, 1, 1)), 0, again=True)
    assert reducer.finished == {2}


def test_a_step_with_other_samples_keeps_nothing() -> None:
    toy = Toy([(3,)])
    reducer = OrderedReducer(toy.layout, 2)
    reducer.begin(Shares((2, 2), (0, 0)), 0, again=False)
    compute(reducer, toy, [0], draw_gradients(2, 3, seed=3))
    reducer.begin(Shares((2, 1), (0, 0)), 0, again=True)
    assert reducer.finished == frozenset()


def test_a_new_step_keeps_nothing() -> None:
    toy = Toy([(3,)])
    shares = Shares((2, 2), (0, 0))
    reducer = OrderedReducer(toy.layout, 2)
    gradients = draw_gradients(2, 3, seed=3)
    reducer.begin(shares, 0, again=False)
    compute(reducer, toy, [0], gradients)
    reducer.begin(shares, 0, again=False)
    assert reducer.finished == frozenset()
    first = bits(step(reducer, toy, shares, None, gradients).gradients)
    assert reducer.finished == frozenset()
    assert bits(step(reducer, toy, shares, None, gradients).gradients) == first


def test_a_unit_without_samples_may_run_and_counts_nothing() -> None:
    toy = Toy([(3,)])
    gradients = draw_gradients(3, 3, seed=4)
    gradients[1] = torch.nan
    reducer = OrderedReducer(toy.layout, 3)
    result = step(reducer, toy, Shares((2, 0, 2), (0, 0, 0)), None, gradients)
    assert bits(result.gradients) == bits((gradients[0] * 2 + gradients[2] * 2) / 4)
    reducer.begin(Shares((2, 0, 2), (0, 0, 0)), 0, again=False)
    compute(reducer, toy, [1], gradients)
    assert reducer.finished == {1}


@pytest.mark.parametrize("counts", [(4, 4, 4, 4), (4, 3, 0, 1)])
def test_observing_shows_raw_gradients_and_changes_no_bit(counts: tuple[int, ...]) -> None:
    gradients = draw_gradients(4, 200, seed=5)
    expected = bits(by_definition(Case(counts, [(200,)], gradients)))
    for world in (1, 2):
        shares = Shares(counts, tuple(unit * world // 4 for unit in range(4)))

        def work(group: Gloo, shares: Shares = shares) -> list[bytes]:
            toy, seen = Toy([(150,), (5, 10)]), []
            reducer = OrderedReducer(toy.layout, 4, observe=lambda vector: seen.append(bits(vector)))
            for _ in range(2):
                found = step(reducer, toy, shares, group, gradients, [1.0] * 70)
                assert bits(found.gradients) == expected
            return seen[: len(seen) // 2]

        shown = [one for seen in crew(world).run(work) for one in seen]
        assert shown == [bits(gradients[unit]) for unit in range(4) if counts[unit]]


def test_reducing_too_early_names_the_missing_units() -> None:
    toy = Toy([(3,)])
    reducer = OrderedReducer(toy.layout, 3)
    reducer.begin(Shares((1, 1, 1), (0, 0, 0)), 0, again=False)
    compute(reducer, toy, [1], draw_gradients(3, 3, seed=6))
    with pytest.raises(RuntimeError, match=r"\[0, 2\]"):
        reducer.reduce(None, 0)


def test_a_unit_is_never_counted_twice() -> None:
    toy = Toy([(3,)])
    gradients = draw_gradients(2, 3, seed=7)
    reducer = OrderedReducer(toy.layout, 2)
    reducer.begin(Shares((1, 1), (0, 1)), 0, again=False)
    compute(reducer, toy, [0], gradients)
    with pytest.raises(RuntimeError, match="unit 0 was finished before"):
        compute(reducer, toy, [0], gradients)
    with pytest.raises(RuntimeError, match="unit 1 belongs to rank 1"):
        reducer.start(1)


def test_other_numbers_of_virtual_ranks_are_refused() -> None:
    with pytest.raises(ValueError, match="8 virtual ranks, not 4"):
        OrderedReducer(Toy([(1,)]).layout, 8).begin(Shares((1,) * 4, (0,) * 4), 0, again=False)


def network(seed: int) -> nn.Module:
    """A convolution in another memory format, a parameter that is used twice, and one that is never used."""
    torch.manual_seed(seed)
    tied = nn.Linear(8, 8)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last),  # type: ignore[call-overload]
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        tied,
        nn.Tanh(),
        tied,
        nn.Linear(8, 4),
    )
    model.register_parameter("unused", nn.Parameter(torch.zeros(7)))
    return model


def test_real_backwards_give_the_same_bits_for_every_number_of_workers() -> None:
    images = torch.randn(8, 6, 3, 9, 9, generator=torch.Generator().manual_seed(9))
    found = set()
    for world in (1, 2, 3, 4, 6):
        shares = Shares((6,) * 8, tuple(unit * world // 8 for unit in range(8)))
        models = [network(seed=1) for _ in range(world)]

        def work(group: Gloo, shares: Shares = shares, models: list[nn.Module] = models) -> bytes:
            model = models[group.rank]
            reducer = OrderedReducer(GradientLayout([list(model.parameters())]), 8)
            reducer.begin(shares, group.rank, again=False)
            for unit in shares.owned_by(group.rank):
                reducer.start(unit)
                model(images[unit]).square().mean().backward()
                model(images[unit]).abs().mean().backward()
                reducer.finish(unit)
            return bits(reducer.reduce(group, 0).gradients)

        found |= set(crew(world).run(work))
    assert len(found) == 1
