"""A job on accelerator types that it was hardly ever seen on."""

from __future__ import annotations

import numpy as np
import pytest

from elastane.models.accelerator_types import best_known, on_type, passes_s
from elastane.models.goodput import BatchLimits, GoodputModel
from elastane.models.online import Learner, refit
from elastane.models.throughput import ThroughputParams, times_s

LIMITS = BatchLimits(64, 4096, 16, 256)
THETA = ThroughputParams(0.02, 0.001, 0.05, 0.005, 0.01, 0.002, 1.5)
SLOW_SYNC = THETA._replace(alpha_c=0.04, beta_c=0.002, alpha_r=9.0, beta_r=9.0)
"""Twice as long for a pass, and a guess at what several GPUs would do that nobody should believe."""


def model(params: dict[str, ThroughputParams[float]], profiled: dict[str, int]) -> GoodputModel:
    return GoodputModel(params, 1e4, LIMITS, max(profiled.values()), profiled=profiled)


def test_times_grow_as_they_do_where_the_job_was_seen() -> None:
    """SIA-4: T_A(1) = 10, T_A(4) = 32, T_B(1) = 20 → T_B(4) = 64."""
    theta = ThroughputParams(0.0, 10.0, 0.0, 0.0, 0.0, 11.0, 1.0)  # a step of one sample: 10 + 11·(K − 2)
    seen_on_a = GoodputModel({"A": theta}, 1.0, BatchLimits(1, 8, 1, 2), 4)
    there = on_type(seen_on_a, "B", 20.0 / 10.0).theta("B")
    assert times_s(theta, 1, 4, 1)[1] == pytest.approx(32.0)
    assert times_s(there, 1, 1, 1)[1] == pytest.approx(20.0)
    assert times_s(there, 1, 4, 1)[1] == pytest.approx(64.0)


def test_one_gpu_of_the_other_type_tells_the_ratio_for_all_sizes() -> None:
    known = model({"A": THETA, "B": SLOW_SYNC}, {"A": 8, "B": 1})
    assert passes_s(known)["B"] == pytest.approx(2.0 * passes_s(known)["A"])
    nodes, workers = np.array([1, 1, 2]), np.array([1, 4, 8])
    here, there = on_type(known, "A"), on_type(known, "B")
    assert there.rates(nodes, workers) == pytest.approx(here.rates(nodes, workers) / 2.0)
    assert there.max_profiled == 8


def test_several_gpus_of_the_other_type_end_all_borrowing() -> None:
    known = model({"A": THETA, "B": SLOW_SYNC}, {"A": 8, "B": 2})
    there = on_type(known, "B")
    assert there.theta("B") == SLOW_SYNC
    assert there.max_profiled == 2


def test_the_type_with_most_gpus_is_borrowed_from() -> None:
    known = model({"A": THETA, "B": SLOW_SYNC}, {"A": 2, "B": 8})
    assert best_known(known) == "B"
    assert on_type(known, "C", 1.0).theta("C") == SLOW_SYNC


def test_a_model_that_does_not_tell_types_apart_is_the_same_everywhere() -> None:
    known = GoodputModel({"": THETA}, 1e4, LIMITS, 4)
    assert on_type(known, "A", 3.0) is known


def test_what_follows_from_a_model_is_kept() -> None:
    known = model({"A": THETA}, {"A": 8})
    assert on_type(known, "A") is known
    assert on_type(known, "B", 2.0) is on_type(known, "B", 2.0)
    assert on_type(known, "B", 2.0) is not on_type(known, "B", 3.0)


def test_a_learner_says_how_far_it_was_seen_on_each_type() -> None:
    learner = Learner(LIMITS)
    for kind, workers in (("A", 1), ("A", 4), ("B", 1)):
        learner.observe(kind, 1, workers, 64, 0.1, 0.1)
    refit([learner])
    found = learner.model()
    assert found is not None
    assert found.profiled == {"A": 4, "B": 1}
    assert found.max_profiled == 4
