"""What is remembered: pooled speed, noise, restart cost, other accelerators."""

from __future__ import annotations

import math

import numpy as np
import pytest

from elastane.models.catalog import catalog_app
from elastane.models.estimate import Provenance
from elastane.models.history import Experience, Memory, Pool, Signature
from elastane.models.history.experience import MOST_TIMINGS, NoisePath, Timing, thinned
from elastane.models.throughput import times_s
from helpers.past_jobs import PLACES, past_job


def recalled(*past: Experience, app: str = "cifar10") -> Memory:
    memory = Pool(past).recall(Signature(app=app))
    assert memory is not None
    return memory


@pytest.mark.parametrize("app", ["cifar10", "bert", "imagenet"])
def test_the_speed_of_like_jobs_is_the_speed_expected(app: str) -> None:
    memory = recalled(*(past_job(n, app) for n in range(5)), app=app)
    known = memory.expected["t4"]
    for place in [*PLACES, (1, 3, 128), (3, 12, 256)]:
        truth = times_s(catalog_app(app).params["t4"], *place)
        assert times_s(known.params, *place) == pytest.approx(truth, rel=0.15)
    assert memory.most_workers == 16


def test_differences_between_neighbours_are_told_as_doubt() -> None:
    alike = recalled(*(past_job(n) for n in range(6)))
    unlike = recalled(*(past_job(n, slower=slower) for n, slower in enumerate((0.5, 0.7, 1.0, 1.0, 1.4, 2.0))))
    assert alike.expected["t4"].error < 0.15
    assert unlike.expected["t4"].error > 0.35
    middle = times_s(unlike.expected["t4"].params, 1, 4, 128)[1]
    assert middle == pytest.approx(times_s(catalog_app("cifar10").params["t4"], 1, 4, 128)[1], rel=0.1)


def test_an_accelerator_that_only_others_ran_on_is_known_by_way_of_them() -> None:
    both = [past_job(n, app, types=("t4", "a100")) for n, app in enumerate(("bert", "ncf", "deepspeech2"))]
    memory = recalled(past_job(9), *both)
    guess, known = memory.expected["a100"], memory.expected["t4"]
    assert next(iter(memory.expected)) == "t4"
    assert guess.error > known.error
    truth = catalog_app("cifar10").params
    ratio = times_s(guess.params, 1, 1, 128)[0] / times_s(known.params, 1, 1, 128)[0]
    true_ratio = times_s(truth["a100"], 1, 1, 128)[0] / times_s(truth["t4"], 1, 1, 128)[0]
    assert abs(math.log(ratio / true_ratio)) < 2.0 * guess.error


def test_without_anything_to_compare_no_accelerator_is_made_up() -> None:
    memory = recalled(past_job(1), past_job(2, "bert", types=("a100",)))
    assert set(memory.expected) == {"t4"}


def test_noise_is_remembered_along_the_way() -> None:
    memory = recalled(past_job(1), past_job(2))
    assert memory.noise_at(0.0) == pytest.approx(500.0)
    assert memory.noise_at(1.0) == pytest.approx(4000.0)
    middle = memory.noise_at(0.5)
    assert middle is not None
    assert 500.0 < middle < 4000.0
    assert recalled(Experience("x", Signature(app="cifar10"))).noise_at(0.5) is None


def test_restart_cost_and_total_work_come_with_their_source() -> None:
    memory = recalled(past_job(1), past_job(2))
    assert memory.restart is not None
    assert (memory.restart.mean, memory.restart.source) == (30.0, Provenance.HISTORY)
    total = memory.total_work()
    assert total is not None
    assert total.source is Provenance.HISTORY
    assert recalled(past_job(1, total_work=None)).total_work() is None


def test_only_some_configurations_are_kept_and_they_reach_as_far_as_all() -> None:
    rows = [Timing(nodes, k, m, 1.0, 1.0) for k in range(1, 33) for m in (8, 16, 64) for nodes in (1, 2)]
    kept = thinned(rows)
    assert len(kept) == MOST_TIMINGS
    for place in (1, 2):
        assert {min(r[place] for r in kept), max(r[place] for r in kept)} == {
            min(r[place] for r in rows),
            max(r[place] for r in rows),
        }
    assert {r.nodes for r in kept} == {1, 2}
    assert thinned(reversed(rows)) == kept


def test_a_noise_path_stays_short_however_long_the_job() -> None:
    path = NoisePath()
    for step in range(1000):
        path.add(float(step), 1.0 + step)
    points = path.points(1000.0)
    assert 6 <= len(points) <= 12
    assert np.all(np.diff([point.fraction for point in points]) > 0)
    assert all(point.noise == pytest.approx(1.0 + 1000 * point.fraction) for point in points)
    path.add(1.0, math.inf)
    assert NoisePath().points(10.0) == ()
