"""Goodput: golden values, the choice of the batch, and the limits it must respect."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from elastane.cluster import Batch
from elastane.errors import ElastaneError
from elastane.models.goodput import (
    BatchLimitArrays,
    BatchLimits,
    GoodputModel,
    efficiency,
    goodput_tables,
    split_batch,
    split_one,
)
from elastane.models.throughput import ThroughputParams, step_time_s

THETA = {
    "cifar10/t4": ThroughputParams(0.017419, 0.00070078, 0.12212, 0.0026422, 0.032852, 0.00087489, 2.0729),
    "imagenet/t4": ThroughputParams(0.06411, 0.0044809, 0.29961, 0.0066381, 0.077187, 4.2681e-05, 2.4731),
    "bert/a100": ThroughputParams(0.097284, 0.0047462, 0.035201, 0.0033923, 0.031151, 0.0057081, 1.5768),
}
LIMITS = {
    "cifar10/t4": BatchLimits(128, 4096, 32, 1024),
    "imagenet/t4": BatchLimits(200, 12800, 20, 200),
    "bert/a100": BatchLimits(12, 384, 4, 48),
}
GOLDEN = [
    # app, nodes, workers, m, s, noise, seconds per step, samples/s, efficiency, goodput
    ("cifar10/t4", 1, 1, 128, 0, 2000.0, 0.107119, 1194.935, 1.0, 1194.935),
    ("cifar10/t4", 1, 4, 256, 0, 2000.0, 0.199386, 5135.77, 0.70370, 3614.06),
    ("cifar10/t4", 2, 8, 256, 1, 2000.0, 0.434526, 9426.37, 0.34908, 3290.57),
    ("imagenet/t4", 8, 32, 200, 0, 20000.0, 1.033014, 6195.46, 0.76515, 4740.47),
    ("bert/a100", 1, 8, 48, 0, 10000.0, 0.341317, 1125.05, 0.96418, 1084.75),
]


def model(app: str, noise: float, limits: BatchLimits | None = None) -> GoodputModel:
    return GoodputModel({"": THETA[app]}, noise, limits or LIMITS[app], max_profiled=4)


@st.composite
def limits_of_any_kind(draw: st.DrawFn) -> BatchLimits:
    initial = draw(st.integers(1, 400))
    per_gpu_min = draw(st.integers(1, 40))
    return BatchLimits(
        initial,
        initial * draw(st.integers(1, 40)) + draw(st.integers(0, 7)),
        per_gpu_min,
        per_gpu_min + draw(st.integers(0, 200)),
        accumulate=draw(st.booleans()),
    )


@st.composite
def models_of_any_kind(draw: st.DrawFn) -> GoodputModel:
    times = st.floats(1e-6, 2.0)
    theta = ThroughputParams(*(draw(times) for _ in range(6)), draw(st.floats(1.0, 10.0)))
    noise = draw(st.one_of(st.just(math.inf), st.floats(0.0, 1e7)))
    return GoodputModel({"": theta}, noise, draw(limits_of_any_kind()), max_profiled=1)


@pytest.mark.parametrize(
    ("app", "nodes", "workers", "m", "s", "noise", "step_s", "speed", "worth", "rate"), GOLDEN
)
def test_golden_values(
    app: str,
    nodes: int,
    workers: int,
    m: int,
    s: int,
    noise: float,
    step_s: float,
    speed: float,
    worth: float,
    rate: float,
) -> None:
    theta = ThroughputParams(*(np.array(x) for x in THETA[app]))
    seconds = float(step_time_s(theta, *(np.array(float(x)) for x in (nodes, workers, m, s))))
    batch = Batch(m, s)
    total = batch.total(workers)
    assert seconds == pytest.approx(step_s, rel=1e-4)
    assert total / seconds == pytest.approx(speed, rel=1e-4)
    initial = LIMITS[app].initial
    assert float(efficiency(*(np.array(float(x)) for x in (noise, initial, total)))) == pytest.approx(
        worth, rel=1e-4
    )
    assert model(app, noise).rate_of(batch, nodes, workers) == pytest.approx(rate, rel=1e-4)


# ---- efficiency ------------------------------------------------------------------------------------------


@given(st.floats(0.0, 1e9), st.integers(1, 1000), st.integers(1, 100))
def test_efficiency_is_one_at_the_owners_batch_and_falls_with_larger_ones(
    noise: float, initial: int, times: int
) -> None:
    batches = np.array([1.0, times, times + 1.0]) * initial
    at_own, larger, largest = efficiency(np.array(noise), np.array(float(initial)), batches)
    assert at_own == 1.0
    assert 0.0 < largest <= larger <= 1.0


def test_efficiency_without_noise_is_inversely_proportional_and_with_infinite_noise_is_free() -> None:
    batches = np.array([10.0, 40.0])
    assert efficiency(np.array(0.0), np.array(10.0), batches).tolist() == [1.0, 0.25]
    assert efficiency(np.array(np.inf), np.array(10.0), batches).tolist() == [1.0, 1.0]


# ---- splitting a batch -----------------------------------------------------------------------------------


@given(limits_of_any_kind(), st.integers(1, 64), st.integers(1, 4000))
def test_splitting_one_batch_and_many_agree(limits: BatchLimits, workers: int, total: int) -> None:
    per_gpu, extra = split_batch(
        np.array([[[float(total)]]]), np.array([[[float(workers)]]]), BatchLimitArrays.of([limits])
    )
    assert split_one(total, workers, limits) == Batch(int(per_gpu.item()), int(extra.item()))


@given(limits_of_any_kind(), st.integers(1, 64), st.integers(1, 4000))
def test_a_split_gives_at_least_what_was_asked_unless_the_maximum_forbids(
    limits: BatchLimits, workers: int, total: int
) -> None:
    assume(total <= limits.maximum)
    batch = split_one(total, workers, limits)
    passes = batch.accumulation + 1
    assert batch.total(workers) <= limits.maximum
    if limits.accumulate:
        assert batch.per_gpu <= limits.per_gpu_max
    if batch.per_gpu < math.ceil(total / workers / passes):
        assert (batch.per_gpu + 1) * workers * passes > limits.maximum


# ---- the best batch --------------------------------------------------------------------------------------


@given(models_of_any_kind(), st.integers(1, 3), st.integers(1, 64))
def test_the_chosen_batch_obeys_every_limit(job: GoodputModel, nodes: int, workers: int) -> None:
    batch, limits = job.best_batch(nodes, workers), job.limits
    rate = float(job.rates(np.array([nodes]), np.array([workers]))[0])
    if batch is None:
        assert rate == 0.0
        return
    assert rate > 0.0
    assert limits.per_gpu_min <= batch.per_gpu <= limits.per_gpu_max
    total, step = batch.total(workers), workers * (batch.accumulation + 1)
    # Above the maximum only on paper: where no batch divides evenly, some shares hold a sample less.
    assert total <= limits.maximum or total - step < limits.initial
    # Below M0 only where M0 itself, rounded up to whole samples per worker, would exceed the maximum.
    assert total >= limits.initial or total + step > limits.maximum
    assert limits.accumulate or batch.accumulation == 0


@given(models_of_any_kind())
def test_one_worker_above_the_owners_batch_accumulates(job: GoodputModel) -> None:
    batch = job.best_batch(1, 1)
    if batch is not None and job.limits.accumulate and batch.total(1) > job.limits.initial:
        assert batch.accumulation >= 1


def test_a_noisy_gradient_makes_one_worker_accumulate() -> None:
    batch = model("cifar10/t4", math.inf).best_batch(1, 1)
    assert batch is not None
    assert batch.total(1) > 128
    assert batch.accumulation >= 1


def test_larger_noise_means_larger_batches() -> None:
    totals = []
    for noise in (10.0, 1e3, 1e5):
        batch = model("cifar10/t4", noise).best_batch(2, 8)
        assert batch is not None
        totals.append(batch.total(8))
    assert totals[0] < totals[1] < totals[2] <= 4096


def test_the_choice_is_near_the_best_of_all_batches() -> None:
    job = model("cifar10/t4", 2000.0)
    every = [job.rate_of(Batch(m), 1, 4) for m in range(32, 1025)]
    assert job.rates(np.array([1]), np.array([4]))[0] >= 0.999 * max(every)


def test_more_workers_than_the_largest_batch_feeds_are_infeasible() -> None:
    job = model("cifar10/t4", 2000.0)
    assert job.max_useful == 128
    assert job.best_batch(32, 128) is not None
    assert job.best_batch(33, 129) is None
    assert job.rates(np.array([32, 33]), np.array([128, 129]))[1] == 0.0


def test_without_accumulation_memory_may_make_one_worker_infeasible() -> None:
    small = BatchLimits(64, 512, 8, 32, accumulate=False)
    job = model("bert/a100", 1e4, small)
    assert job.best_batch(1, 1) is None
    assert job.best_batch(1, 2) is not None


def test_no_workers_do_no_work() -> None:
    assert model("bert/a100", 1e4).rates(np.array([0]), np.array([0]))[0] == 0.0


def test_a_fixed_batch_is_kept_on_every_allocation() -> None:
    fixed = BatchLimits(128, 4096, 32, 1024, fixed=512)
    job = model("cifar10/t4", 2000.0, fixed)
    for workers in (1, 2, 4, 8, 16):
        batch = job.best_batch(1, workers)
        assert batch is not None
        assert batch.total(workers) == 512
    assert job.max_useful == 16


@given(
    st.lists(models_of_any_kind(), min_size=1, max_size=4), st.lists(st.integers(1, 40), min_size=1, max_size=5)
)
def test_many_at_once_equal_one_by_one(jobs: list[GoodputModel], sizes: list[int]) -> None:
    nodes = np.array([1 + i % 2 for i in range(len(sizes))])
    workers = np.array(sizes)
    table = goodput_tables(jobs, nodes, workers)
    for row, job in enumerate(jobs):
        for column, (n, k) in enumerate(zip(nodes.tolist(), sizes, strict=True)):
            assert table.rate[row, column] == pytest.approx(
                job.rates(nodes[column : column + 1], workers[column : column + 1])[0]
            )
            batch = job.best_batch(n, k)
            if batch is None:
                assert table.rate[row, column] == 0.0
            else:
                assert job.rate_of(batch, n, k) == pytest.approx(table.rate[row, column], rel=1e-9)


# ---- what the model knows --------------------------------------------------------------------------------


def test_an_unknown_accelerator_borrows_the_first_known_one() -> None:
    job = GoodputModel(
        {"t4": THETA["cifar10/t4"], "a100": THETA["bert/a100"]}, 2000.0, LIMITS["cifar10/t4"], max_profiled=4
    )
    one = np.array([1])
    assert job.rates(one, one, "h100") == job.rates(one, one, "t4")
    assert job.rates(one, one, "a100") != job.rates(one, one, "t4")


@pytest.mark.parametrize("numbers", [(0, 10, 1, 10), (20, 10, 1, 10), (10, 20, 0, 10), (10, 20, 11, 10)])
def test_impossible_limits_are_refused(numbers: tuple[int, int, int, int]) -> None:
    with pytest.raises(ElastaneError, match="batch limits"):
        BatchLimits(*numbers)


# ---- shares that differ by a sample ----------------------------------------------------------------------


def test_a_batch_that_three_workers_cannot_halve_is_computed_in_uneven_shares() -> None:
    only = BatchLimits(64, 64, 1, 64)
    job = model("cifar10/t4", math.inf, only)
    step_s = step_time_s(job.theta(""), np.array([1.0]), np.array([3.0]), np.array([22.0]), np.array([0.0]))
    rate, batch = job.best_of(1, 3)
    assert batch == Batch(22)
    assert rate == pytest.approx(64 / step_s[0])
    assert job.rate_of(batch, 1, 3) == pytest.approx(rate)


@pytest.mark.parametrize("maximum", [64, 65, 70])
@pytest.mark.parametrize("per_gpu_max", [64, 11])
def test_every_number_of_workers_that_has_a_sample_each_can_train(maximum: int, per_gpu_max: int) -> None:
    job = model("cifar10/t4", 2000.0, BatchLimits(64, maximum, 1, per_gpu_max))
    workers = np.arange(1, 65)
    assert (job.rates(np.ones_like(workers), workers) > 0.0).all()
    assert job.rates(np.array([1]), np.array([maximum + 1]))[0] == 0.0


def test_no_share_is_smaller_than_the_smallest_allowed() -> None:
    job = model("cifar10/t4", 2000.0, BatchLimits(64, 64, 16, 64))
    assert job.best_batch(1, 3) == Batch(22)
    assert job.best_batch(1, 5) is None


def test_a_batch_that_may_grow_is_divided_evenly_as_before() -> None:
    for app in LIMITS:
        job = model(app, 2000.0)
        for workers in range(1, job.max_useful + 1):
            batch = job.best_batch(1, workers)
            assert batch is not None
            assert LIMITS[app].initial <= batch.total(workers) <= LIMITS[app].maximum
