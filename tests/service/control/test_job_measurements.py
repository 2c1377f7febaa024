"""What is learned from a job's own words, and that nothing of it is lost on the way through the store."""

from __future__ import annotations

import json
import math

import pytest

from elastane.models.goodput import BatchLimits
from elastane.models.throughput import ThroughputParams
from elastane.service.control.job_measurements import JobMeasurements, fit_together
from elastane.train.reports.events import Evaluated, Fitted, Resized, Saved, Stepped, Warned, WorkerLost
from service.helpers import window

THETA = ThroughputParams(0.01, 0.01, 0.1, 0.01, 0.05, 0.01, 1.0)


def trained(*workers: int, sync_s: float = 0.02) -> JobMeasurements:
    learned = JobMeasurements("adaptive")
    for count in workers or (1,):
        learned.hear(Resized(0.0, 1, "start", 0, count, 0, 1.0))
        for n in range(1, 6):
            learned.hear(window(float(n), n / 100, count, sync_s=sync_s if count > 1 else 0.0))
    return learned


def through_the_store(learned: JobMeasurements) -> JobMeasurements:
    training, profile = json.loads(json.dumps([learned.training_json(), learned.profile_json()]))
    return JobMeasurements.restored("adaptive", training, profile)


def test_nothing_is_known_before_anything_was_said() -> None:
    learned = JobMeasurements("adaptive")
    assert (learned.training, learned.fraction, learned.remaining, learned.speed("cpu")) == (None,) * 4
    assert through_the_store(learned).profile_json() == learned.profile_json()


def test_progress_tells_how_much_is_left() -> None:
    learned = trained()
    assert learned.fraction == 0.05
    assert learned.remaining is not None
    assert learned.remaining.mean == pytest.approx(5 * 32 * 0.95 / 0.05)


def test_speed_is_learned_for_every_number_of_workers_that_was_tried() -> None:
    learned = trained(1, 2)
    model = learned.speed("cpu")
    assert model is not None
    assert learned.measured == {1, 2}
    assert model.max_profiled == 2
    assert model.best_of(1, 1, "cpu")[0] == pytest.approx(100.0, rel=0.02)
    assert model.best_of(1, 2, "cpu")[0] == pytest.approx(32 / (0.16 + 0.02), rel=0.02)


def test_the_first_window_after_a_change_is_not_believed() -> None:
    learned = JobMeasurements("adaptive")
    learned.hear(window(1.0, 0.1, compute_s=99.0))
    assert learned.measured == frozenset()
    learned.hear(window(2.0, 0.2))
    learned.hear(Resized(3.0, 1, "grow", 1, 2, 2, 1.0))
    learned.hear(window(4.0, 0.3, 2, compute_s=99.0))
    assert learned.measured == {1}


def test_the_very_same_model_is_used_while_nothing_new_was_learned() -> None:
    learned = trained(1, 2)
    first = learned.speed("cpu")
    learned.hear(window(9.0, 0.2, 2, sync_s=0.02))
    assert learned.speed("cpu") is first
    learned.hear(Resized(9.0, 1, "grow", 2, 4, 2, 1.0))
    for n in (10.0, 11.0):
        learned.hear(window(n, 0.3, 4, sync_s=0.02))
    assert learned.speed("cpu") is not first


def test_fitting_together_gives_what_fitting_alone_gives() -> None:
    jobs = [trained(1, 2), trained(1, 4, sync_s=0.05), trained(2), JobMeasurements("adaptive")]
    alone = [job.speed("cpu") for job in (trained(1, 2), trained(1, 4, sync_s=0.05), trained(2))]
    fit_together(jobs)
    assert all(job.stale_learner() is None for job in jobs)
    for job, other in zip(jobs, alone, strict=False):
        model = job.speed("cpu")
        assert model is not None
        assert other is not None
        for workers in (1, 2, 4):
            expected = other.best_of(1, workers, "cpu")[0]
            assert model.best_of(1, workers, "cpu")[0] == pytest.approx(expected, rel=1e-3)
    fit_together([])


def test_times_are_learned_as_they_would_be_with_cores_of_ones_own() -> None:
    shared, alone = JobMeasurements("adaptive"), JobMeasurements("adaptive")
    for n in range(1, 5):
        shared.hear(window(float(n), 0.1, compute_s=0.64), 0.5)
        alone.hear(window(float(n), 0.1, compute_s=0.32))
    ours, theirs = shared.speed("cpu"), alone.speed("cpu")
    assert ours is not None
    assert theirs is not None
    assert ours.best_of(1, 1, "cpu")[0] == pytest.approx(theirs.best_of(1, 1, "cpu")[0], rel=0.02)


@pytest.mark.parametrize("fixed", [None, 64])
def test_a_job_is_known_as_well_after_a_restart(fixed: int | None) -> None:
    learned = trained(1, 2)
    limits = BatchLimits(64, 512, 4, 128, fixed=fixed, accumulate=False)
    learned.hear(Fitted(6.0, THETA, 100.0, limits, 2))
    learned.hear(Resized(7.0, 1, "grow", 1, 2, 5, 3.0, redone_steps=1))
    learned.hear(Evaluated(7.0, 1, 5, {"accuracy": 0.9}))
    learned.hear(Saved(7.0, 4, 100, 0.1, 0.2))
    learned.hear(WorkerLost(7.0, "w1", "killed", 5))
    again = through_the_store(learned)
    assert again.limits == limits
    assert again.training == learned.training
    assert again.remaining == learned.remaining
    assert again.restart.estimate() == learned.restart.estimate()
    assert json.dumps(again.profile_json()) == json.dumps(learned.profile_json())
    ours, theirs = again.speed("cpu"), learned.speed("cpu")
    assert ours is not None
    assert theirs is not None
    assert ours.best_of(1, 2, "cpu")[0] == pytest.approx(theirs.best_of(1, 2, "cpu")[0], rel=1e-6)


def test_what_happened_is_counted() -> None:
    learned = trained()
    learned.hear(Resized(7.0, 1, "grow", 1, 2, 5, 3.0, redone_steps=1))
    learned.hear(Resized(8.0, 2, "shrink", 2, 1, 5, 1.0))
    learned.hear(WorkerLost(9.0, "w1", "killed", 5))
    learned.hear(window(10.0, 0.2))
    training = learned.training
    assert training is not None
    assert (training.resizes, training.pauses_s, training.redone_steps, training.workers_lost) == (2, 4.0, 1, 1)


def test_a_start_is_no_pause() -> None:
    learned = JobMeasurements("adaptive")
    before = learned.restart.estimate()
    learned.hear(Resized(1.0, 0, "start", 0, 2, 0, 60.0))
    assert learned.restart.estimate() == before
    learned.hear(Resized(2.0, 1, "grow", 2, 3, 0, 0.5))
    assert learned.restart.estimate().mean < before.mean


def test_noise_makes_larger_batches_worth_less() -> None:
    def rate(noise: float) -> float:
        learned = trained(1, 2)
        learned.hear(Fitted(6.0, THETA, noise, BatchLimits(32, 512, 1, 512), 2))
        event = window(7.0, 0.1, 2, sync_s=0.02)
        learned.hear(Stepped(**{**{f: getattr(event, f) for f in event.__dataclass_fields__}, "noise": noise}))
        model = learned.speed("cpu")
        assert model is not None
        return float(model.best_of(1, 2, "cpu")[0])

    assert rate(10.0) < rate(1000.0) < rate(math.inf)


def test_what_means_nothing_here_is_not_worth_storing() -> None:
    assert not JobMeasurements("adaptive").hear(Warned(1.0, "careful"))
    assert not JobMeasurements("adaptive").hear(Saved(1.0, 4, 100, 0.1, 0.2))
