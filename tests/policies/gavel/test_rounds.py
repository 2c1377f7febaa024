"""Rounds make shares real: GAV-4 of the specification, resets, newcomers, widths and previous GPUs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from elastane.cluster import Cluster, Grant, Node
from elastane.errors import ElastaneError
from elastane.policies.lowering import lower
from elastane.policies.plan import Plan, Received, Shares
from elastane.policies.registry import make_policy
from elastane.policies.view import JobState, JobView, Request, View

ROUND_S = 360.0


def waiting(name: str, workers: int = 1, submit_s: float = 0.0) -> JobView:
    return JobView(name, submit_s, Request(workers, workers, workers))


def view(nodes: list[Node], *jobs: JobView, now_s: float = 0.0) -> View:
    return View(now_s, {job.id: job for job in jobs}, {node.id: node for node in nodes})


def placed(shares: Shares, seen: View) -> dict[str, tuple[str, ...]]:
    return {job: grant.nodes for job, grant in lower(Plan(shares), seen).grants.items()}


def received(types: tuple[str, ...] = ("t4",), fill: bool = True, **seconds: float) -> Received:
    by_type = {job: dict.fromkeys(types, got_s) for job, got_s in seconds.items()}
    return Received(by_type, {}, types, fill)


def test_gav4_two_jobs_take_turns_by_their_shares(job: Callable, schedule: Callable) -> None:
    # Weights 3 and 2 on one GPU make X = (.6, .4).  Each begins with half a round to its credit, so X/f is 1.2 and .8
    # before the first round, .8 and 1.6 before the second, and so on: 0 1 0 1 0 0 1 0 1 0.
    jobs = [job("J0", 1, 1e5, weight=3.0), job("J1", 1, 1e5, weight=2.0)]
    done = schedule("gavel-oracle(reset_s=1e9)", jobs, gpus=1, until_s=ROUND_S * 11 - 1.0)
    order = [next(iter(decision.grants)) for _, _, decision in done.decisions[:10]]
    assert order == [f"J{number}" for number in (0, 1, 0, 1, 0, 0, 1, 0, 1, 0)]
    assert [decision.now_s for _, _, decision in done.decisions[:3]] == [ROUND_S, 2 * ROUND_S, 3 * ROUND_S]


def test_what_a_job_fell_short_of_before_a_reset_breaks_ties_after_it(
    job: Callable, schedule: Callable
) -> None:
    # Three equal jobs on one GPU: whoever has run two of the five rounds before the reset comes after the other two.
    jobs = [job(f"J{number}", 1, 1e5) for number in range(3)]
    late = job("J3", 1, 1e5, at=ROUND_S * 4.5)
    done = schedule("gavel-oracle(reset_s=1800)", [*jobs, late], gpus=1, until_s=ROUND_S * 9.5)
    order = [next(iter(decision.grants)) for _, _, decision in done.decisions]
    assert order[:5] == ["J0", "J1", "J2", "J0", "J1"]
    # The reset at the sixth round knows J3; J2 has had one round of five, and is owed most.
    assert order[5:8] == ["J2", "J3", "J0"]


def test_a_newcomer_has_no_share_until_the_next_reset_and_is_told_so(job: Callable, schedule: Callable) -> None:
    done = schedule("gavel-oracle", [job("J0", 1, 1e4), job("J1", 1, 300, at=400)], gpus=2, until_s=ROUND_S * 8)
    starts = done.starts
    assert starts["J0"] == ROUND_S
    # Γ = 1920 s after the first computation at 360 s is 2280 s; the next round is at 2520 s.
    assert starts["J1"] == ROUND_S * 7
    _, plan, decision = done.at(ROUND_S * 2)
    assert decision.waiting["J1"] == plan.explain["J1"]
    assert plan.explain["J1"] == "it has no share of the time yet; shares are computed again in 26 min"


def test_nobody_waits_for_gamma_when_nobody_has_a_share(job: Callable, schedule: Callable) -> None:
    done = schedule("gavel-oracle", [job("J0", 1, 100), job("J1", 1, 100, at=400)], gpus=1)
    assert done.starts["J1"] == ROUND_S * 2


def test_types_are_filled_in_their_order_and_nobody_runs_twice() -> None:
    nodes = [Node("fast", 1, "v100"), Node("slow", 1, "k80")]
    shares = {"x": {"v100": 0.6, "k80": 0.4}, "y": {"v100": 0.4, "k80": 0.6}}
    got = received(("v100", "k80"), x=1.0, y=1.0)
    assert placed(Shares(shares, got), view(nodes, waiting("x"), waiting("y"))) == {
        "x": ("fast",),
        "y": ("slow",),
    }
    turned = replace(got, types=("k80", "v100"))
    assert placed(Shares(shares, turned), view(nodes, waiting("x"), waiting("y"))) == {
        "x": ("fast",),
        "y": ("slow",),
    }


def test_a_shortfall_decides_between_equal_priorities() -> None:
    shares = {"x": {"t4": 0.5}, "y": {"t4": 0.5}}
    got = received(x=1.0, y=1.0)
    seen = view([Node("a", 1)], waiting("x"), waiting("y"))
    assert placed(Shares(shares, got), seen) == {"x": ("a",)}
    assert placed(Shares(shares, replace(got, short_s={"y": {"t4": 10.0}})), seen) == {"y": ("a",)}


def test_idle_gpus_go_to_jobs_without_a_share_unless_the_policy_says_no() -> None:
    shares = {"x": {"t4": 1.0}, "y": {"t4": 0.0}}
    seen = view([Node("a", 2)], waiting("x"), waiting("y"))
    assert placed(Shares(shares, received(x=1.0, y=1.0)), seen) == {"x": ("a",), "y": ("a",)}
    assert placed(Shares(shares, received(fill=False, x=1.0, y=1.0)), seen) == {"x": ("a",)}


def test_wide_jobs_are_placed_first_and_who_stays_keeps_its_gpus() -> None:
    nodes = [Node("a", 2), Node("b", 2)]
    shares = {"narrow": {"t4": 1.0}, "wide": {"t4": 0.5}}
    seen = view(nodes, waiting("narrow"), waiting("wide", 2))
    assert placed(Shares(shares, received(narrow=1.0, wide=1.0)), seen)["wide"] == ("a",)
    runs = replace(waiting("narrow"), grant=Grant.of([("a", 1)]), state=JobState.RUNNING)
    again = placed(Shares(shares, received(narrow=1.0, wide=1.0)), view(nodes, runs, waiting("wide", 2)))
    assert again == {"narrow": ("a",), "wide": ("b",)}


def test_an_unknown_objective_is_named() -> None:
    with pytest.raises(ElastaneError, match=r"unknown objective 'max_min'.*known: max_min_fairness"):
        make_policy("gavel(objective=max_min)")


def test_time_on_each_type_is_kept_apart(job: Callable, schedule: Callable) -> None:
    # Two equal types and one job each round: the account has to say which type the time was spent on.
    cluster = Cluster.of([Node("a", 1, "t4"), Node("b", 1, "v100")])
    done = schedule(
        "gavel-oracle", [job("J0", 1, 1e4), job("J1", 1, 1e4)], cluster=cluster, until_s=ROUND_S * 3.5
    )
    view_, plan, _ = done.decisions[-1]
    for name, grant in ((job.id, job.grant) for job in view_.jobs.values()):
        assert grant is not None
        kind = cluster.nodes[grant.nodes[0]].gpu_type
        assert plan.memory["jobs"][name][1][kind] > ROUND_S / 2
        assert sum(plan.memory["jobs"][name][1].values()) == pytest.approx(ROUND_S + 2 * ROUND_S)
