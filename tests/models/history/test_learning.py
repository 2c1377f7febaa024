"""A learner with a memory: what it says first, how it comes to trust itself, and how it forgets."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastane.models.catalog import catalog_app
from elastane.models.estimate import Provenance
from elastane.models.goodput import BatchLimits
from elastane.models.history import Memory, Pool, Signature
from elastane.models.online import Learner, choose_batches, first_batch
from elastane.models.throughput import times_s
from helpers.past_jobs import PLACES, Place, measure, past_job

LIMITS = BatchLimits(128, 4096, 32, 1024)
ORDER: tuple[Place, ...] = ((1, 1, 128), (1, 4, 128), (2, 8, 256), (1, 2, 512), (4, 16, 128), (2, 6, 512))
EVERYWHERE = [*PLACES, (1, 3, 200), (3, 12, 300), (8, 32, 128)]


def memory_of(app: str = "cifar10", slower: float = 1.0, **options: object) -> Memory:
    past = [past_job(n, app, slower=slower, **options) for n in range(4)]  # type: ignore[arg-type]
    memory = Pool(past).recall(Signature(app=app))
    assert memory is not None
    return memory


def error(learner: Learner, app: str, slower: float = 1.0) -> float:
    """RMS relative error of step times over places of all kinds."""
    model = learner.model()
    assert model is not None
    theta, truth = model.theta("t4"), catalog_app(app).params["t4"]
    logs = [math.log(times_s(theta, *p)[1] / (times_s(truth, *p)[1] * slower)) for p in EVERYWHERE]
    return math.sqrt(sum(x * x for x in logs) / len(logs))


def test_before_anything_was_measured_memory_answers() -> None:
    learner = Learner(LIMITS, memory_of())
    model = learner.model()
    assert model is not None
    assert model.source is Provenance.HISTORY
    assert model.max_profiled == 16
    assert model.noise == pytest.approx(500.0)
    assert 0.0 < model.relative_error < 0.3
    assert error(learner, "cifar10") < 0.1
    assert choose_batches([learner], [(1, 4)], [None]) == [model.best_batch(1, 4)]


def test_a_memory_of_nothing_but_work_says_nothing_of_speed() -> None:
    learner = Learner(LIMITS, memory_of(places=()))
    assert learner.model() is None
    assert choose_batches([learner], [(1, 4)], [None]) == [first_batch(LIMITS, 4)]


def test_own_measurements_are_joined_with_what_is_remembered() -> None:
    learner = measure(Learner(LIMITS, memory_of()), "cifar10", (1, 1, 128))
    model = learner.model()
    assert model is not None
    assert model.source is Provenance.FITTED
    assert model.max_profiled == 16
    alone = measure(Learner(LIMITS), "cifar10", (1, 1, 128))
    assert error(learner, "cifar10") < 0.1 < error(alone, "cifar10")


def test_a_job_that_is_slower_throughout_is_known_after_one_measurement() -> None:
    learner = measure(Learner(LIMITS, memory_of()), "cifar10", (1, 1, 128), slower=1.8)
    assert learner.memory is not None
    assert error(learner, "cifar10", slower=1.8) < 0.15


def test_what_it_measured_itself_counts_for_noise() -> None:
    learner = Learner(LIMITS, memory_of())
    learner.observe_noise(777.0)
    model = learner.model()
    assert model is not None
    assert model.noise == 777.0


@pytest.mark.parametrize(
    ("app", "wrong"),
    [
        ("cifar10", "imagenet"),
        ("imagenet", "cifar10"),
        ("bert", "cifar10"),
        ("cifar10", "bert"),
        ("deepspeech2", "ncf"),
    ],
)
def test_a_wrong_neighbour_is_forgotten_after_three_configurations(app: str, wrong: str) -> None:
    learner = measure(Learner(LIMITS, memory_of(wrong)), app, *ORDER[:3])
    assert learner.memory is None
    alone = measure(Learner(LIMITS), app, *ORDER[:3])
    assert error(learner, app) == pytest.approx(error(alone, app), rel=0.05, abs=0.01)
    model = learner.model()
    assert model is not None
    assert model.max_profiled == 8


def test_a_factor_nobody_would_believe_is_not_believed() -> None:
    learner = measure(Learner(LIMITS, memory_of(slower=10.0)), "cifar10", (1, 1, 128))
    assert learner.memory is None


def test_a_memory_once_forgotten_stays_forgotten() -> None:
    learner = measure(Learner(LIMITS, memory_of("imagenet")), "cifar10", *ORDER[:3])
    measure(learner, "imagenet", (1, 3, 64))
    assert learner.memory is None


@settings(max_examples=15)
@given(
    app=st.sampled_from(["cifar10", "bert", "imagenet", "deepspeech2", "ncf"]),
    slower=st.sampled_from([0.5, 0.8, 1.0, 1.3, 2.0]),
    known=st.integers(1, len(PLACES)),
)
def test_after_some_measurements_memory_does_no_harm(app: str, slower: float, known: int) -> None:
    for wrong in (app, "cifar10"):
        memory = memory_of(wrong, places=PLACES[:known])
        with_memory = measure(Learner(LIMITS, memory), app, *ORDER, slower=slower)
        alone = measure(Learner(LIMITS), app, *ORDER, slower=slower)
        assert error(with_memory, app, slower) <= error(alone, app, slower) + 0.05


def test_another_accelerator_follows_the_factor_measured_on_the_first() -> None:
    past = [past_job(n, types=("t4", "a100")) for n in range(4)]
    memory = Pool(past).recall(Signature(app="cifar10"))
    learner = measure(Learner(LIMITS, memory), "cifar10", (1, 1, 128), (1, 4, 128), slower=1.5)
    model = learner.model()
    assert model is not None
    assert list(model.params) == ["t4", "a100"]
    truth = times_s(catalog_app("cifar10").params["a100"], 1, 1, 128)[1]
    assert times_s(model.theta("a100"), 1, 1, 128)[1] == pytest.approx(1.5 * truth, rel=0.1)


def test_what_it_measured_is_what_it_leaves_behind() -> None:
    learner = measure(Learner(LIMITS, memory_of()), "cifar10", (1, 1, 128), (1, 4, 128))
    assert [row[:3] for row in learner.timings()["t4"]] == [(1, 1, 128), (1, 4, 128)]
    assert np.isfinite([row[3:] for row in learner.timings()["t4"]]).all()
