"""Elastane's own policy: weights, sizes, and what they do to a division."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from elastane.models.estimate import Estimate
from elastane.policies.elastane import Elastane, flow_weights
from elastane.policies.lowering import lower
from elastane.policies.options import OptionError
from elastane.policies.view import Info, JobView, View
from elastane.sim.metrics import summarise
from elastane.sim.run import simulate
from elastane.sim.spec import RunSpec
from helpers.pollux_views import job, view

SEEN = Info.SPEED | Info.REMAINING


def sized(made: JobView, left: float | None) -> JobView:
    remaining = None if left is None else Estimate(left)
    return replace(made, facts=replace(made.facts, remaining=remaining), visible=SEEN)


def counts(seen: View) -> dict[str, int]:
    grants = lower(Elastane().decide(seen), seen).grants
    return {job_id: grant.workers for job_id, grant in grants.items()}


def test_weights_of_two_jobs_by_hand() -> None:
    """q = 0.5: θ = (i/m)² − ((i−1)/m)² = 1/4 for the larger and 3/4 for the smaller; weights are their roots."""
    assert flow_weights(np.array([10.0, 100.0]), 0.5) == pytest.approx([np.sqrt(0.75), np.sqrt(0.25)])


def test_smaller_jobs_never_weigh_less() -> None:
    sizes = np.array([5.0, 1.0, 9.0, 3.0])
    weights = flow_weights(sizes, 0.8)
    assert list(np.argsort(weights)) == list(np.argsort(-sizes))


def test_the_job_that_is_nearly_done_gets_more() -> None:
    seen = replace(view([sized(job("short"), 100.0), sized(job("long"), 1e6)], [8]), visible=SEEN)
    given = counts(seen)
    assert given["short"] > given.get("long", 0)
    assert sum(given.values()) <= 8


def test_alone_a_job_gets_all_that_helps() -> None:
    assert counts(replace(view([sized(job("only", 0.0), 1e6)], [4, 4]), visible=SEEN)) == {"only": 8}


def test_a_job_that_is_about_to_end_is_not_moved() -> None:
    """30 s of restart for a job with 20 s to go would only delay it."""
    held = replace(sized(job("a", 0.0, [("n0", 1)]), 20.0), restart_s=30.0)
    assert counts(replace(view([held], [4]), visible=SEEN)) == {"a": 1}


def test_unknown_work_is_no_obstacle() -> None:
    seen = replace(view([sized(job("a"), None), sized(job("b"), None)], [2]), visible=SEEN)
    assert sum(counts(seen).values()) == 2


@pytest.mark.parametrize("options", [{"q": 1.0}, {"q": 0.0}, {"horizon_s": 0.0}, {"explore": 0.5}])
def test_impossible_options_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="elastane"):
        Elastane(**options)


def test_it_beats_pollux_on_a_generated_workload() -> None:
    ours, theirs = (
        summarise(simulate(RunSpec("pollux:11,jobs=60", policy, cluster="6x4:t4"))).mean_jct_s
        for policy in ("elastane", "pollux")
    )
    assert ours is not None
    assert theirs is not None
    assert ours < theirs
