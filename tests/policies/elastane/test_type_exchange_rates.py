"""Elastane's own policy on mixed clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from elastane.cluster import Grant, Node
from elastane.models.estimate import Estimate
from elastane.models.goodput import BatchLimits, GoodputModel
from elastane.models.throughput import ThroughputParams, scaled
from elastane.policies.elastane import Elastane
from elastane.policies.elastane.inputs import see
from elastane.policies.elastane.type_exchange_rates import Exchange
from elastane.policies.lowering import lower
from elastane.policies.view import Facts, JobView, Ledger, Request, View
from elastane.sim.metrics import summarise
from elastane.sim.run import simulate
from elastane.sim.spec import RunSpec
from elastane.testing.policies.checks import check_decision, check_same, check_settled, decide
from elastane.testing.policies.variants import reordered
from elastane.testing.policies.views import TYPES, random_view

NOW_S = 3600.0
SEEN = Elastane.needs.info
THETA = ThroughputParams(0.02, 0.001, 0.05, 0.005, 0.01, 0.001, 2.0)
LIMITS = BatchLimits(64, 4096, 16, 256)
NODES = {"a0": Node("a0", 4, "a100"), "t0": Node("t0", 4, "t4")}


def job(name: str, times: dict[str, float], left: float = 1e6, held: str = "", **request: Any) -> JobView:
    """A job that takes so many times as long on each type, seen with four GPUs there, that holds a node or nothing."""
    params = {kind: scaled(THETA, factor) for kind, factor in times.items()}
    speed = GoodputModel(params, 1e5, LIMITS, 4, profiled=dict.fromkeys(times, 4))
    grant = Grant.of([(held, 4)]) if held else None
    return JobView(
        name,
        0.0,
        Request(workers=1, max_workers=64, **request),
        grant=grant,
        ledger=Ledger(NOW_S, 4 if held else 0, 100.0, last_change_s=NOW_S - 600.0),
        restart_s=30.0,
        facts=Facts(remaining=Estimate(left), speed=speed if times else None),
        visible=SEEN,
    )


def view(jobs: Sequence[JobView], nodes: dict[str, Node] = NODES, memory: Any = None) -> View:
    return View(NOW_S, {each.id: each for each in jobs}, nodes, memory=memory, visible=SEEN)


def places(seen: View) -> dict[str, str]:
    """The accelerator type each job gets."""
    grants = lower(Elastane().decide(seen), seen).grants
    return {name: seen.nodes[grant.slices[0].node].gpu_type for name, grant in grants.items()}


FAST, EVEN = {"a100": 0.2, "t4": 1.0}, {"a100": 0.95, "t4": 1.0}


def test_the_job_that_gains_by_a_type_gets_it_and_the_other_makes_room() -> None:
    assert places(view([job("fast", FAST), job("even", EVEN)])) == {"fast": "a100", "even": "t4"}


def test_a_job_that_hardly_gains_by_its_type_moves_away_for_one_that_does() -> None:
    found = places(view([job("even", EVEN, 1e7, "a0"), job("fast", FAST, 1e7)]))
    assert found == {"fast": "a100", "even": "t4"}


def test_changing_the_type_costs_a_restart() -> None:
    """Twice as fast elsewhere, with 20 s left where it is."""
    rate = float(GoodputModel({"": THETA}, 1e5, LIMITS, 4).rates(np.array([1]), np.array([4]))[0])
    near, far = (job("a", {"a100": 0.5, "t4": 1.0}, left_s * rate, "t0") for left_s in (20.0, 2000.0))
    assert places(view([near])) == {"a": "t4"}
    assert places(view([far])) == {"a": "a100"}


@pytest.mark.parametrize("request_", [{"types": ("t4",)}, {"preemptible": False}])
def test_who_may_not_move_stays(request_: dict[str, Any]) -> None:
    assert places(view([job("a", FAST, 1e7, "t0", **request_)])) == {"a": "t4"}


def test_a_job_that_was_never_there_fares_like_those_that_were() -> None:
    """Others were five times as fast there: so much that even a short job is moved."""
    short = replace(job("a", {"t4": 1.0}, 6e5, "t0"), restart_s=60.0)
    told = {"types": {"exchange": {"gone": [{"t4": 1.0, "a100": 0.2}], "here": {}}, "beyond": {}}}
    assert places(view([short], memory={"at_s": NOW_S, "fair": {}, **told})) == {"a": "a100"}


def test_what_nobody_knows_the_longest_job_goes_and_sees() -> None:
    jobs = [job("long", {"t4": 1.0}, 1e8, "t0"), job("short", {"t4": 1.0}, 1e6, "t1")]
    nodes = {**NODES, "t1": Node("t1", 4, "t4")}
    assert places(view(jobs, nodes)) == {"long": "a100", "short": "t4"}


def test_who_has_seen_that_it_is_slower_does_not_go_again() -> None:
    assert places(view([job("a", {"t4": 1.0, "a100": 1.2}, 1e8, "t0")])) == {"a": "t4"}


def test_what_jobs_have_found_of_types_outlives_them() -> None:
    plan = Elastane().decide(view([job("a", FAST)]))
    told = Exchange.of(plan.memory["types"]).with_jobs([])
    assert told.ratio("t4", "a100") == pytest.approx(0.2, rel=0.06)
    assert told.ratio("a100", "t4") == pytest.approx(5.0, rel=0.06)
    assert told.ratio("t4", "v100") is None


def test_a_job_with_time_hopes_to_be_among_the_lucky() -> None:
    told = Exchange(tuple({"t4": 1.0, "a100": ratio} for ratio in (0.2, 0.4, 0.8, 1.2)))
    assert told.ratio("t4", "a100", 1.0) < told.ratio("t4", "a100", 0.0)


def test_work_is_counted_in_mean_gpus() -> None:
    """Half of the GPUs are five times as fast: a mean GPU does (5 + 1) / 2 of what the slow one does."""
    seen = view([job("a", FAST), job("b", FAST, types=("t4",))])
    sight = see(seen, 4.0, 4, 0.8)
    alone = {each.id: rate for each, rate in zip(sight.outlook.jobs, sight.outlook.alone, strict=True)}
    assert alone["a"] == pytest.approx(3.0 * alone["b"])
    a100, t4 = (part.one_node[0, 1] for part in sight.parts)
    assert (a100, t4) == pytest.approx((5.0 / 3.0, 1.0 / 3.0))


def test_equal_accelerators_are_one_problem() -> None:
    nodes = {name: replace(node, gpu_type="t4") for name, node in NODES.items()}
    sight = see(view([job("a", FAST)], nodes), 4.0, 4, 0.8)
    assert len(sight.parts) == 1
    assert sight.memory.keys() == {"beyond"}


def test_what_is_known_of_types_survives_a_time_without_them() -> None:
    plan = Elastane().decide(view([job("a", FAST)]))
    after = Elastane().decide(view([job("a", FAST)], {"t0": NODES["t0"]}, plan.memory))
    assert after.memory["types"] == plan.memory["types"]


def typed(seen: View, rng: Random) -> View:
    """The same jobs, knowing some types each, at speeds of their own."""
    jobs = {}
    for name, each in sorted(seen.jobs.items()):
        speed = each.facts.speed
        if isinstance(speed, GoodputModel):
            known = rng.sample(TYPES, rng.randint(1, len(TYPES)))
            params = {kind: scaled(speed.theta(""), rng.uniform(0.2, 2.0)) for kind in known}
            profiled = {kind: rng.randint(1, 4) for kind in known}
            facts = replace(each.facts, speed=replace(speed, params=params, profiled=profiled))
            each = replace(each, facts=facts)
        jobs[name] = each
    return replace(seen, jobs=jobs)


@pytest.mark.parametrize("seed", range(40))
def test_decisions_with_typed_speeds_are_sound_settled_and_independent_of_order(seed: int) -> None:
    rng, policy = Random(seed), Elastane()
    seen = typed(random_view(rng, SEEN, jobs=8, nodes=5, movable=True), rng)
    first = decide(policy, seen)
    check_decision(*first, seen)
    check_same(first, decide(policy, reordered(seen, Random(seed))), "listed in another order")
    check_settled(policy, seen)
    for grant in first[1].grants.values():
        assert len({seen.nodes[part.node].gpu_type for part in grant.slices}) == 1


@pytest.mark.slow
def test_it_beats_pollux_on_a_mixed_cluster() -> None:
    ours, theirs = (
        summarise(simulate(RunSpec("pollux:11,jobs=60", policy, cluster="4x4:t4,2x8:a100", skip_bad=True)))
        for policy in ("elastane", "pollux")
    )
    assert ours.mean_jct_s is not None
    assert theirs.mean_jct_s is not None
    assert ours.mean_jct_s < 0.75 * theirs.mean_jct_s
