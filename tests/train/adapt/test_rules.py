"""Batch rules: splits within limits, Pollux's choice with hysteresis, and rules by name."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.cluster import Batch
from elastane.models.goodput import BatchLimits, GoodputModel
from elastane.models.noise import NoiseScale
from elastane.models.throughput import ThroughputParams
from elastane.train.adapt.rule_registry import BATCH_RULES, rule_named
from elastane.train.adapt.rules import BatchChoice, BatchSituation, Fixed, PolluxRule, split, within
from elastane.train.errors import TrainError

LIMITS = BatchLimits(initial=128, maximum=4096, per_gpu_min=8, per_gpu_max=1024)
THETA = ThroughputParams(0.0174, 0.0007, 0.122, 0.0026, 0.0329, 0.0009, 2.07)


def noise_of(phi: float, samples: int = 50) -> NoiseScale:
    """A noise scale of ``phi`` samples at M0 = 128, from equal steps with two units."""
    var, sqr = phi / 128.0, 1.0
    state = NoiseScale(128)
    for _ in range(samples):
        state = state.observe([sqr + var], [sqr + var / 2], 2, 2.0 * 0.5)
    return state


def situation(
    workers: int = 4,
    current: Batch | None = None,
    phi: float = 2000.0,
    limits: BatchLimits = LIMITS,
    known: bool = True,
    samples: int = 50,
    resized: bool = False,
) -> BatchSituation:
    model = GoodputModel({"": THETA}, phi, limits, workers) if known else None
    current = current if current is not None else Batch(32)
    total = current.total(workers)
    return BatchSituation(workers, 1, current, total, limits, noise_of(phi, samples), resized, model=model)


limits_drawn = st.builds(
    lambda initial, growth, least, room, accumulate: BatchLimits(
        initial, initial * growth, least, least + room, accumulate=accumulate
    ),
    st.integers(1, 512),
    st.integers(1, 32),
    st.integers(1, 32),
    st.integers(0, 512),
    st.booleans(),
)


@given(st.integers(1, 20000), st.integers(1, 64), limits_drawn)
def test_a_split_never_leaves_a_worker_empty_or_overfull(total: int, workers: int, limits: BatchLimits) -> None:
    batch = BatchChoice(total, "").shape(workers, limits)
    assert 1 <= batch.per_gpu <= limits.per_gpu_max
    assert batch.accumulation == 0 or limits.accumulate


@given(st.integers(1, 20000), st.integers(1, 64), limits_drawn)
def test_a_split_holds_the_total_wherever_accumulation_may_help(
    total: int, workers: int, limits: BatchLimits
) -> None:
    batch = within(split(total, workers, limits), workers, limits)
    if limits.accumulate:
        assert batch.total(workers) >= min(total, limits.maximum)
        if batch.per_gpu > limits.per_gpu_min:
            assert batch.total(workers) - min(total, limits.maximum) < workers * (batch.accumulation + 1)


def test_one_worker_above_the_owners_batch_accumulates() -> None:
    assert split(128, 1, LIMITS) == Batch(128, 0)
    assert split(200, 1, LIMITS) == Batch(100, 1)
    assert split(5000, 1, LIMITS) == Batch(1000, 4)


def test_fixed_keeps_the_total_on_any_number_of_workers() -> None:
    pinned = BatchLimits(128, 128, 1, 64)
    for workers in range(1, 12):
        batch = Fixed().choose(situation(workers)).shape(workers, pinned)
        assert 128 <= batch.total(workers) < 128 + workers * (batch.accumulation + 1)


def test_pollux_takes_the_batch_of_the_highest_goodput() -> None:
    choice = PolluxRule().choose(situation())
    model = situation().model
    assert model is not None
    assert choice.batch == model.best_batch(1, 4)
    assert "goodput" in choice.reason


def test_pollux_wants_a_larger_batch_when_there_is_more_noise() -> None:
    totals = [PolluxRule().choose(situation(phi=phi)).shape(4, LIMITS).total(4) for phi in (10.0, 1e3, 1e5)]
    assert totals == sorted(totals)
    assert totals[0] < totals[-1]


def test_pollux_changes_nothing_for_less_than_five_per_cent() -> None:
    model = situation().model
    assert model is not None
    best = model.best_batch(1, 4)
    assert best is not None
    rate = model.rate_of(best, 1, 4)
    flat = [Batch(m) for m in range(32, 1024) if rate <= 1.05 * model.rate_of(Batch(m), 1, 4)]
    steep = [Batch(m) for m in range(32, 1024) if rate > 1.05 * model.rate_of(Batch(m), 1, 4)]
    assert len(flat) > 10
    assert len(steep) > 10
    assert all(PolluxRule().choose(situation(current=batch)).batch == batch for batch in flat)
    assert all(PolluxRule().choose(situation(current=batch)).batch == best for batch in steep)


@pytest.mark.parametrize(("known", "samples"), [(False, 50), (True, 19)])
def test_pollux_waits_until_enough_is_measured(known: bool, samples: int) -> None:
    waiting = situation(current=Batch(40), known=known, samples=samples)
    assert PolluxRule().choose(waiting).batch == Batch(40)


def test_pollux_leaves_a_batch_that_no_longer_fits_even_before_it_knows_more() -> None:
    tight = BatchLimits(128, 4096, 8, 24)
    choice = PolluxRule().choose(situation(current=Batch(40), limits=tight, known=False))
    assert choice.shape(4, tight) == Batch(20, 1)


def test_a_resize_alone_does_not_change_the_total_while_little_is_known() -> None:
    # 256 samples until now; the situation is that of 4 workers, who would make 4 × 256 of the old shares.
    before = BatchSituation(4, 1, Batch(256), 256, LIMITS, NoiseScale(128), resized=True)
    assert PolluxRule().choose(before).shape(4, LIMITS) == Batch(64)


def test_hysteresis_does_not_outlive_a_resize() -> None:
    model = situation().model
    assert model is not None
    best = model.best_batch(1, 4)
    assert best is not None
    near = Batch(best.per_gpu + 1)
    assert PolluxRule().choose(situation(current=near)).batch == near
    assert PolluxRule().choose(situation(current=near, resized=True)).batch == best


@given(st.integers(1, 300), limits_drawn, st.one_of(st.just(math.inf), st.floats(0.1, 1e6)))
def test_pollux_never_falls_below_the_owners_batch_where_it_fits(
    workers: int, limits: BatchLimits, phi: float
) -> None:
    model = GoodputModel({"": THETA}, phi, limits, workers)
    seen = BatchSituation(workers, 1, Batch(1), workers, limits, noise_of(2000.0), model=model)
    batch = PolluxRule().choose(seen).shape(workers, limits)
    assert 1 <= batch.per_gpu <= limits.per_gpu_max
    if limits.accumulate:
        assert batch.total(workers) >= limits.initial


@pytest.mark.parametrize("name", BATCH_RULES)
def test_every_named_rule_answers(name: str) -> None:
    choice = rule_named(name).choose(situation())
    assert choice.reason
    assert choice.shape(4, LIMITS).per_gpu >= 1


def test_a_misspelt_rule_is_told_its_nearest() -> None:
    with pytest.raises(TrainError, match="did you mean 'pollux'"):
        rule_named("polux")
