"""What is learned about a running job, when it is fitted again, and when its batch changes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from elastane.cluster import Batch
from elastane.models.estimate import Provenance
from elastane.models.goodput import BatchLimits
from elastane.models.online import Learner, choose_batches, first_batch, refit
from elastane.models.throughput import ThroughputParams, step_time_s

LIMITS = BatchLimits(128, 4096, 32, 1024)
THETA = ThroughputParams(*(np.array(x) for x in (0.0174, 0.0007, 0.122, 0.0026, 0.0329, 0.0009, 2.07)))


def measure(
    learner: Learner, nodes: int, workers: int, per_gpu: int, kind: str = "t4", slower: float = 1.0
) -> None:
    gradient_s = float(THETA.alpha_c + THETA.beta_c * per_gpu) * slower
    place = (np.array(float(x)) for x in (nodes, workers, per_gpu, 0.0))
    learner.observe(kind, nodes, workers, per_gpu, gradient_s, float(step_time_s(THETA, *place)) * slower)


def fitted(*configurations: tuple[int, int, int], noise: float | None = None) -> Learner:
    learner = Learner(LIMITS)
    for configuration in configurations:
        measure(learner, *configuration)
    if noise is not None:
        learner.observe_noise(noise)
    refit([learner])
    return learner


# ---- refitting -------------------------------------------------------------------------------------------


def test_nothing_is_known_before_the_first_measurement() -> None:
    learner = Learner(LIMITS)
    assert learner.model() is None
    assert not learner.stale
    assert refit([learner]) == 0


def test_only_a_new_configuration_asks_for_a_fit() -> None:
    learner = fitted((1, 1, 128))
    known = learner.model()
    measure(learner, 1, 1, 128, slower=1.2)
    assert not learner.stale
    assert refit([learner]) == 0
    assert learner.model() is known
    measure(learner, 1, 2, 128)
    assert learner.stale
    assert refit([learner]) == 1
    assert learner.model() is not known


def test_repeated_measurements_are_averaged_into_the_next_fit() -> None:
    learner = fitted((1, 1, 128))
    first = learner.model()
    for _ in range(9):
        measure(learner, 1, 1, 128, slower=2.0)
    measure(learner, 1, 1, 256, slower=2.0)
    refit([learner])
    second = learner.model()
    assert first is not None
    assert second is not None
    assert second.observations == 2
    place = np.array([1]), np.array([1])
    assert second.rates(*place)[0] < 0.65 * first.rates(*place)[0]


def test_many_learners_are_fitted_in_one_call() -> None:
    learners = [Learner(LIMITS) for _ in range(3)]
    measure(learners[0], 1, 1, 128)
    measure(learners[2], 1, 1, 128)
    measure(learners[2], 1, 1, 128, kind="a100", slower=0.3)
    assert refit(learners) == 3
    assert learners[1].model() is None
    assert all(learners[i].model() is not None for i in (0, 2))


def test_a_model_is_a_snapshot() -> None:
    learner = fitted((1, 1, 128), noise=500.0)
    before = learner.model()
    assert before is not None
    learner.observe_noise(5000.0)
    assert before.noise == 500.0
    after = learner.model()
    assert after is not None
    assert after.noise == 5000.0
    learner.observe_noise(5000.0)
    assert learner.model() is after


def test_noise_never_measured_counts_as_infinite() -> None:
    model = fitted((1, 1, 128)).model()
    assert model is not None
    assert model.noise == math.inf
    assert model.source is Provenance.FITTED


def test_the_largest_size_ever_seen_is_remembered() -> None:
    learner = fitted((1, 4, 128), (1, 1, 128))
    assert learner.max_profiled == 4
    measure(learner, 2, 8, 128)
    refit([learner])
    model = learner.model()
    assert model is not None
    assert model.max_profiled == 8


def test_an_accelerator_never_seen_borrows_from_one_that_was() -> None:
    learner = fitted((1, 1, 128))
    measure(learner, 1, 1, 128, kind="a100", slower=0.25)
    refit([learner])
    model = learner.model()
    assert model is not None
    one = np.array([1])
    t4, a100, h100 = (model.rates(one, one, kind)[0] for kind in ("t4", "a100", "h100"))
    assert a100 == pytest.approx(4.0 * t4, rel=0.05)
    assert h100 == t4


# ---- the batch -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 3, 4, 16, 128])
def test_the_first_batch_is_the_owners_or_the_least_that_feeds_everyone(workers: int) -> None:
    total = first_batch(LIMITS, workers).total(workers)
    assert max(128, 32 * workers) <= total < max(128, 32 * workers) + workers


def test_a_fixed_batch_is_never_changed() -> None:
    learner = Learner(BatchLimits(128, 4096, 32, 1024, fixed=256))
    measure(learner, 1, 2, 128)
    learner.observe_noise(1e6)
    refit([learner])
    assert choose_batches([learner], [(1, 2)], [None]) == [Batch(128)]


def test_unknown_jobs_start_with_their_first_batch() -> None:
    assert choose_batches([Learner(LIMITS)], [(1, 4)], [Batch(999)]) == [first_batch(LIMITS, 4)]


def test_a_known_job_takes_its_best_batch() -> None:
    learner = fitted((1, 1, 128), (1, 4, 128), (1, 4, 256), noise=2e4)
    model = learner.model()
    assert model is not None
    [batch] = choose_batches([learner], [(1, 4)], [None])
    assert batch == model.best_batch(1, 4)
    assert batch.total(4) > 512


def test_a_gain_of_less_than_five_per_cent_changes_nothing() -> None:
    learner = fitted((1, 1, 128), (1, 4, 128), (1, 4, 256), noise=2e3)
    model = learner.model()
    assert model is not None
    best = model.best_batch(1, 4)
    assert best is not None
    top = model.rate_of(best, 1, 4)
    near, far = Batch(best.per_gpu + 20), Batch(32)
    assert top / model.rate_of(near, 1, 4) < 1.05 < top / model.rate_of(far, 1, 4)
    assert choose_batches([learner], [(1, 4)], [near]) == [near]
    assert choose_batches([learner], [(1, 4)], [far]) == [best]
    assert choose_batches([learner], [(1, 4)], [near], min_gain=0.0) == [best]
    assert choose_batches([learner], [(1, 4)], [near], min_gain=0.5) == [near]
    assert choose_batches([learner], [(1, 4)], [None]) == [best]


def test_every_learner_gets_its_own_answer() -> None:
    known, unknown = fitted((1, 1, 128), (1, 4, 128), noise=2e4), Learner(LIMITS)
    together = choose_batches([known, unknown, known], [(1, 4), (1, 2), (2, 8)], [None] * 3)
    alone = [
        choose_batches([known], [(1, 4)], [None])[0],
        choose_batches([unknown], [(1, 2)], [None])[0],
        choose_batches([known], [(2, 8)], [None])[0],
    ]
    assert together == alone
