"""When a job is moved, and what is believed of sizes that it has not tried."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from elastane.cluster import Grant
from elastane.models.estimate import Estimate, Provenance
from elastane.models.goodput import BatchLimits, GoodputModel
from elastane.models.throughput import ThroughputParams
from elastane.policies.elastane import Elastane
from elastane.policies.elastane.move_cost import horizons_s, next_look_s, untried, what_a_move_leaves
from elastane.policies.elastane.multi_node_gain import Experience
from elastane.policies.lowering import lower
from elastane.policies.view import Facts, JobView, Ledger, Request
from helpers.pollux_views import problem, view

NOW_S = 3600.0
SEEN = Elastane.needs.info
NETWORK = ThroughputParams(0.05, 0.001, 0.05, 0.0, 0.01, 0.0, 2.0)
"""A job that computes for a millisecond per sample; on several nodes it waits 50 ms for every step, on one 10 ms."""


def model(params: ThroughputParams[float] = NETWORK, seen: int = 4, widest: int = 64) -> GoodputModel:
    return GoodputModel({"": params}, 1e6, BatchLimits(64, 16384, 16, 4096), seen, widest=widest)


def trained(
    name: str, speed: GoodputModel, left: float, workers: int = 4, since_s: float = NOW_S - 60.0
) -> JobView:
    """A job that has held its GPUs, all on one node, for a minute."""
    return JobView(
        name,
        0.0,
        Request(workers=1, max_workers=64),
        grant=Grant.of([("n0", workers)]),
        ledger=Ledger(NOW_S, workers, 100.0, last_change_s=since_s),
        restart_s=30.0,
        facts=Facts(speed=speed, remaining=Estimate(left, source=Provenance.DECLARED)),
        visible=SEEN,
    )


def granted(*jobs: JobView) -> dict[str, int]:
    seen = replace(view(jobs, [4, 4, 4, 4]), visible=SEEN)
    grants = lower(Elastane().decide(seen), seen).grants
    return {name: grant.workers for name, grant in grants.items()}


def test_a_job_that_has_not_tried_a_larger_batch_stays_where_it_is() -> None:
    small = trained("a", model(widest=16), 1e6)
    large = trained("a", model(widest=4096), 1e6)
    assert untried(small, NOW_S)
    assert not untried(large, NOW_S)
    assert granted(small) == {"a": 4}
    assert granted(large)["a"] > 4


def test_a_job_that_only_seems_long_is_not_stopped_for_others() -> None:
    """Seen with its owner's small batch only, it is believed to have far more before it than it has."""
    seems_long = trained("a", model(widest=16), 1e8, since_s=NOW_S - 40.0)
    young = replace(seems_long, ledger=replace(seems_long.ledger, held_s=40.0))
    another_kind = replace(model(widest=4096), limits=BatchLimits(128, 16384, 16, 4096))
    others = [replace(trained(f"b{i}", another_kind, 1e5), grant=None) for i in range(20)]
    assert granted(young, *others)["a"] == 4
    stopped = replace(young, grant=None)
    assert granted(stopped, *others)["a"] >= 1


def test_nobody_is_waited_for_for_ever() -> None:
    """An agent that does not take the batch its model wants has its reasons."""
    assert not untried(trained("a", model(widest=16), 1e6, since_s=NOW_S - 200.0), NOW_S)


def test_more_is_known_once_a_new_job_has_run_some_seconds() -> None:
    waiting = replace(trained("a", model(), 1e6), grant=None, facts=Facts())
    assert next_look_s([waiting], NOW_S) == NOW_S + 40.0  # its start, and ten seconds of training
    assert next_look_s([trained("a", model(widest=16), 1e6)], NOW_S) == NOW_S + 10.0
    assert next_look_s([trained("a", model(widest=4096), 1e6)], NOW_S) == np.inf


def test_a_move_is_weighed_against_what_is_left_where_it_leads() -> None:
    """120 s of work on one GPU: with s times the speed and a restart of 30 s, 30 + 120/s instead of 120/s."""
    job = trained("a", model(widest=4096), 1.0, workers=1)
    plain = problem([job], [4])
    kept = what_a_move_leaves(plain, np.array([120.0]), np.array([300.0]), NOW_S)[0]
    speedups = plain.one_node[0] / plain.one_node[0, 1]
    there_s = 120.0 / speedups[4]
    assert kept[4] == pytest.approx(there_s / (30.0 + there_s))
    long = what_a_move_leaves(plain, np.array([1e6]), np.array([300.0]), NOW_S)[0]
    assert long[4] == pytest.approx(0.9)


def test_a_job_is_expected_to_stay_as_long_as_it_has_stayed() -> None:
    young, settled, old = (
        trained("a", model(), 1e6, since_s=NOW_S - stayed) for stayed in (60.0, 900.0, 3600.0)
    )
    assert horizons_s([young, settled, old], 300.0, NOW_S).tolist() == [300.0, 900.0, 2000.0]


def test_a_job_whose_end_nobody_knows_is_not_expected_to_stay() -> None:
    settled = trained("a", model(), 1e6, since_s=NOW_S - 900.0)
    untold = replace(settled, facts=replace(settled.facts, remaining=None))
    assert horizons_s([untold], 300.0, NOW_S).tolist() == [300.0]


def test_hope_decides_who_may_try_more_nodes_but_not_what_work_is_worth() -> None:
    long = trained("long", model(widest=4096), 1e9)
    assert Experience().exponents([long], 4, 0.8) == pytest.approx(0.8)
    assert Experience().usual(1) == pytest.approx(0.4)
    others = [trained(f"b{i}", model(seen=16, widest=4096), 1e6) for i in range(12)]
    learned = Experience().with_jobs(others, 4)
    found = next(iter(learned.here.values()))
    assert learned.usual(1)[0] == pytest.approx((3 * 0.4 + 12 * found) / 15)


def test_what_others_found_on_several_nodes_is_believed_of_a_job_that_will_end_soon() -> None:
    bad = ThroughputParams(0.05, 0.001, 5.0, 0.0, 0.01, 0.0, 2.0)  # the network is a hundred times slower
    others = [trained(f"b{i}", model(bad, seen=16, widest=4096), 1e6) for i in range(12)]
    short, long = (trained(name, model(widest=4096), left) for name, left in (("short", 1e4), ("long", 1e9)))
    learned = Experience().with_jobs([*others, short, long], 4)
    soon, later = learned.exponents([short, long], 4, 0.8)
    assert soon < 0.6
    assert later == pytest.approx(0.8)


def test_experience_outlives_the_jobs_that_made_it_and_travels_as_json() -> None:
    tried = trained("a", model(seen=16, widest=4096), 1e6)
    kept = Experience().with_jobs([tried], 4)
    again = Experience.of({"beyond": kept.memory()}).with_jobs([], 4)
    assert again.count == 1
    assert again.total == pytest.approx(kept.here["a"])
