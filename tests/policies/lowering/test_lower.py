"""From orders, wants, shares and exact grants to places."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.cluster import Grant, Node
from elastane.policies.lowering import Lowered, lower
from elastane.policies.lowering.lower import UNEXPLAINED
from elastane.policies.plan import Exact, Fill, Intent, Order, Plan, Shares, Spread, Want, Wants
from elastane.policies.view import ELASTIC, Ability, JobState, JobView, Ledger, Request, View
from elastane.resources import Resources
from elastane.testing.policies.checks import check_limits
from elastane.testing.policies.variants import applied
from elastane.testing.policies.views import views


def job(name: str, workers: int = 1, *held: tuple[str, int], **rest: object) -> JobView:
    request = rest.pop("request", Request(workers, 1, 16))
    state = JobState.RUNNING if held else JobState.PENDING
    grant = Grant.of(held) if held else None
    return JobView(name, 0.0, request, state=state, grant=grant, **rest)  # type: ignore[arg-type]


def view(nodes: dict[str, int] | list[Node], *jobs: JobView) -> View:
    made = nodes if isinstance(nodes, list) else [Node(name, gpus) for name, gpus in nodes.items()]
    return View(100.0, {j.id: j for j in jobs}, {n.id: n for n in made})


def lowered(intent: Intent, seen: View, **plan: object) -> Lowered:
    return lower(Plan(intent, **plan), seen)  # type: ignore[arg-type]


def places(found: Lowered) -> dict[str, dict[str, int]]:
    return {i: {part.node: part.workers for part in grant.slices} for i, grant in found.grants.items()}


# ---- orders ------------------------------------------------------------------------------------------------


def test_an_order_gives_what_was_asked_for_until_nothing_is_left() -> None:
    found = lowered(Order(("x", "y", "z")), view({"a": 4}, job("x", 2), job("y", 3), job("z", 2)))
    assert places(found) == {"x": {"a": 2}, "z": {"a": 2}}
    assert found.waiting == {"y": "needs 3 GPUs, 2 are left for it"}


def test_in_a_strict_order_nobody_overtakes() -> None:
    found = lowered(Order(("x", "y", "z"), Fill.STRICT), view({"a": 4}, job("x", 2), job("y", 3), job("z", 2)))
    assert places(found) == {"x": {"a": 2}}
    assert found.waiting["z"] == "position 3; y is first and nobody may overtake it"


def test_running_jobs_stay_where_they_are_and_others_stop() -> None:
    seen = view({"a": 2, "b": 4}, job("x", 1, ("b", 1)), job("y", 2, ("a", 2)), job("z", 4))
    assert places(lowered(Order(("x", "y")), seen)) == {"x": {"b": 1}, "y": {"a": 2}}
    assert places(lowered(Order(("y",)), seen)) == {"y": {"a": 2}}


def test_nobody_yields_to_a_job_that_finds_no_place() -> None:
    """First comes a job of 4 that must stand on one node; both have 3 left by those after it, who then stay."""
    wide = job("w", 4, request=Request(4, 4, 4, max_nodes=1))
    seen = view({"a": 4, "b": 4}, wide, job("x", 1, ("a", 1)), job("y", 1, ("b", 1)))
    found = lowered(Order(("w", "x", "y")), seen)
    assert places(found) == {"x": {"a": 1}, "y": {"b": 1}}
    assert "not so placed" in found.waiting["w"]


def test_a_job_that_could_never_stand_there_is_told_so() -> None:
    seen = view({"a": 4, "b": 4}, job("x", 9), job("y", 5, request=Request(5, 5, 5, max_nodes=1)))
    found = lowered(Order(("x", "y")), seen)
    assert found.waiting["x"] == "needs 9 workers; the nodes it may use hold 8 at most"
    assert found.waiting["y"] == "needs 5 workers; the nodes it may use hold 4 at most"


def test_a_job_not_in_the_plan_is_left_unexplained_unless_the_policy_speaks() -> None:
    seen = view({"a": 1}, job("x"))
    assert lowered(Order(()), seen).waiting == {"x": UNEXPLAINED}
    assert lowered(Order(()), seen, explain={"x": ""}).waiting == {"x": UNEXPLAINED}
    assert lowered(Order(()), seen, explain={"x": "because", "ghost": "who?"}).waiting == {"x": "because"}


def test_the_policys_words_win_over_generic_ones() -> None:
    assert lowered(Order(("x",)), view({"a": 1}, job("x", 2)), explain={"x": "why"}).waiting == {"x": "why"}


def test_names_that_do_not_exist_or_come_twice_do_no_harm() -> None:
    found = lowered(Order(("ghost", "x", "x")), view({"a": 4}, job("x", 2)))
    assert places(found) == {"x": {"a": 2}}


def test_workers_of_two_gpus_count_double() -> None:
    wide = Request(2, 1, 2, worker=Resources(gpus=2.0))
    found = lowered(Order(("x", "y")), view({"a": 4}, job("x", request=wide), job("y", 1)))
    assert places(found) == {"x": {"a": 2}}


# ---- spreads -----------------------------------------------------------------------------------------------

GAPS = {"a": 4, "b": 2, "c": 3, "d": 1}


@pytest.mark.parametrize(
    ("spread", "workers", "expected"),
    [
        (Spread.EMPTIEST, 2, {"a": 2}),
        (Spread.EMPTIEST, 6, {"a": 4, "c": 2}),
        (Spread.BEST_FIT, 2, {"b": 2}),
        (Spread.BEST_FIT, 6, {"a": 4, "b": 2}),
        (Spread.CONSOLIDATED, 3, {"c": 3}),
        (Spread.CONSOLIDATED, 5, {"a": 4, "d": 1}),
        (Spread.FRAGMENTS, 2, {"d": 1, "b": 1}),
        (Spread.FRAGMENTS, 4, {"d": 1, "b": 2, "c": 1}),
        (Spread.BALANCED, 4, {"a": 4}),
        (Spread.BALANCED, 6, {"a": 3, "c": 3}),
        (Spread.BALANCED, 5, {"a": 3, "c": 2}),
        (Spread.BALANCED, 8, {"a": 3, "c": 3, "b": 2}),
        (Spread.BALANCED, 9, None),
    ],
)
def test_each_spread_takes_the_nodes_it_promises(
    spread: Spread, workers: int, expected: dict[str, int] | None
) -> None:
    found = lowered(Wants({"x": Want(workers, spread=spread)}), view(GAPS, job("x", workers)))
    assert places(found).get("x") == expected


@pytest.mark.parametrize("spread", Spread)
def test_no_spread_gives_more_than_there_is(spread: Spread) -> None:
    found = lowered(Wants({"x": Want(11, spread=spread)}), view(GAPS, job("x", 11)))
    assert found.waiting == {"x": "needs 11 GPUs, 10 are free"}


@pytest.mark.parametrize("spread", Spread)
def test_no_spread_mixes_accelerators(spread: Spread) -> None:
    nodes = [Node("a", 4, "t4"), Node("b", 4, "v100"), Node("c", 1, "v100")]
    seen = view(nodes, job("x", 5), job("y", 6))
    both = lowered(Wants({"x": Want(5, spread=spread), "y": Want(6, spread=spread)}), seen)
    assert both.grants.keys() <= {"x"}
    assert set(places(both).get("x", {})) <= {"b", "c"}
    assert "y" in both.waiting


def test_consolidated_waits_for_the_fewest_nodes() -> None:
    seen = view({"a": 4, "b": 4}, job("r", 2, ("a", 2)), job("s", 2, ("b", 2)), job("x", 4))
    wants = {"r": Want(2), "s": Want(2), "x": Want(4, spread=Spread.CONSOLIDATED)}
    assert "consolidated" in lowered(Wants(wants), seen).waiting["x"]
    wants["x"] = Want(4)
    assert places(lowered(Wants(wants), seen))["x"] == {"a": 2, "b": 2}


def test_consolidated_counts_the_nodes_there_are_not_the_largest_alone() -> None:
    """16 workers need three of these nodes at best: waiting for two would be waiting for ever."""
    found = lowered(
        Wants({"x": Want(16, spread=Spread.CONSOLIDATED)}), view({"a": 8, "b": 4, "c": 4}, job("x", 16))
    )
    assert places(found) == {"x": {"a": 8, "b": 4, "c": 4}}


def test_consolidated_knows_that_cpus_may_be_the_limit() -> None:
    nodes = [Node(name, 4, cpus=4.0) for name in "ab"]
    hungry = job("x", request=Request(4, 1, 4, worker=Resources(1.0, cpus=2.0)))
    found = lowered(Wants({"x": Want(4, spread=Spread.CONSOLIDATED)}), view(nodes, hungry))
    assert places(found) == {"x": {"a": 2, "b": 2}}


def test_balanced_spreads_workers_and_servers_evenly() -> None:
    nodes = [Node(name, 4, cpus=8.0) for name in "abc"]
    request = Request(4, 1, 8, Resources(1.0, cpus=1.0), Resources(cpus=2.0), max_servers=4)
    found = lowered(Wants({"x": Want(6, 4, spread=Spread.BALANCED)}), view(nodes, job("x", request=request)))
    assert {(part.workers, part.servers) for part in found.grants["x"].slices} == {(3, 2)}
    assert len(found.grants["x"].slices) == 2


def test_servers_for_which_there_is_no_room_keep_the_job_waiting() -> None:
    nodes = [Node("a", 4, cpus=4.0)]
    request = Request(4, 1, 8, Resources(1.0, cpus=1.0), Resources(cpus=1.0), max_servers=1)
    found = lowered(Wants({"x": Want(4, 1)}), view(nodes, job("x", request=request)))
    assert "x" in found.waiting
    assert not found.refused


@pytest.mark.parametrize("spread", Spread)
def test_no_more_nodes_than_want_and_owner_allow(spread: Spread) -> None:
    seen = view({"a": 1, "b": 1, "c": 4}, job("x", request=Request(4, 1, 4, max_nodes=2)))
    assert places(lowered(Wants({"x": Want(4, spread=spread)}), seen)) == {"x": {"c": 4}}
    loose = Want(4, spread=spread, max_nodes=3)
    assert len(places(lowered(Wants({"x": loose}), seen))["x"]) <= 2


# ---- wants -------------------------------------------------------------------------------------------------


def test_who_has_what_it_should_have_does_not_move() -> None:
    seen = view({"a": 4, "b": 4}, job("x", 2, ("a", 1), ("b", 1)), job("y", 6))
    found = lowered(Wants({"y": Want(6), "x": Want(2)}), seen)
    assert places(found) == {"x": {"a": 1, "b": 1}, "y": {"a": 3, "b": 3}}


def test_another_type_means_another_place() -> None:
    nodes = [Node("a", 4, "t4"), Node("b", 4, "v100")]
    seen = view(nodes, job("x", 2, ("a", 2)))
    assert places(lowered(Wants({"x": Want(2, gpu_type="v100")}), seen)) == {"x": {"b": 2}}
    assert "of type h100" in lowered(Wants({"x": Want(2, gpu_type="h100")}), seen).waiting["x"]


def test_the_order_of_wants_decides_where_not_all_fit() -> None:
    seen = view({"a": 4}, job("x", 3), job("y", 3))
    assert lowered(Wants({"y": Want(3), "x": Want(3)}), seen).grants.keys() == {"y"}
    assert lowered(Wants({"x": Want(3), "y": Want(3)}), seen).grants.keys() == {"x"}


def test_a_draining_node_is_left_and_takes_nothing_new() -> None:
    nodes = [Node("a", 4, draining=True), Node("b", 4)]
    found = lowered(Wants({"x": Want(2), "y": Want(2)}), view(nodes, job("x", 2, ("a", 2)), job("y", 2)))
    assert places(found) == {"x": {"b": 2}, "y": {"b": 2}}


def test_a_job_that_cannot_move_keeps_its_size_and_place() -> None:
    stuck = job("x", 2, ("a", 2), abilities=ELASTIC & ~Ability.MIGRATE)
    seen = view({"a": 4, "b": 4}, stuck, job("y", 4))
    found = lowered(Wants({"x": Want(4), "y": Want(4)}), seen)
    assert places(found) == {"x": {"a": 2}, "y": {"b": 4}}
    assert not found.refused


@pytest.mark.parametrize("intent", [Order(("x",)), Wants({"x": Want(4)}), Shares({"x": {"t4": 1.0}})])
def test_pinned_jobs_stay_though_the_plan_forgets_them(intent: Intent) -> None:
    pinned = job("p", request=Request(2, 1, 4, preemptible=False))
    pinned = replace(pinned, grant=Grant.of([("a", 2)]), state=JobState.RUNNING)
    found = lowered(intent, view({"a": 4, "b": 2}, job("x", 4), pinned))
    assert places(found) == {"p": {"a": 2}, "x": {"a": 2, "b": 2}}
    assert not found.refused


# ---- shares and exact grants -------------------------------------------------------------------------------


def test_who_lags_behind_its_share_most_runs_this_round() -> None:
    served = Ledger(as_of_s=100.0, held_s=90.0)
    seen = view({"a": 2}, job("x", 2, ledger=served), job("y", 2))
    found = lowered(Shares({"x": {"t4": 0.6}, "y": {"t4": 0.4}}), seen)
    assert places(found) == {"y": {"a": 2}}
    assert found.waiting["x"] == "its share is 60% of the time; others are further behind theirs this round"


def test_shares_are_realised_on_the_type_they_name_if_the_job_accepts_it() -> None:
    nodes = [Node("a", 2, "t4"), Node("b", 2, "v100")]
    picky = job("x", request=Request(2, 1, 2, types=("v100",)))
    found = lowered(Shares({"x": {"t4": 0.9, "v100": 0.1}, "y": {"t4": 0.5}}), view(nodes, picky, job("y", 2)))
    assert places(found) == {"x": {"b": 2}, "y": {"a": 2}}


def test_exact_grants_pass_unless_the_guard_objects() -> None:
    seen = view({"a": 4}, job("x", 2), job("y", 2))
    good = Grant.of([("a", 2)])
    found = lowered(Exact({"x": good, "y": Grant.of([("a", 3)])}), seen)
    assert found.grants == {"x": good}
    assert found.refused == {"y": "there is no room for 3 workers on a"} == found.waiting


# ---- properties --------------------------------------------------------------------------------------------


def random_intent(rng: Random, seen: View) -> Intent:
    """Some order, wants or shares over the jobs of a view."""
    chosen = [i for i in sorted(seen.jobs) if rng.random() < 0.8]
    rng.shuffle(chosen)
    kind = rng.randint(0, 2)
    if kind == 0:
        spreads = {i: rng.choice(tuple(Spread)) for i in chosen if rng.random() < 0.5}
        return Order(tuple(chosen), rng.choice(tuple(Fill)), rng.choice(tuple(Spread)), spreads)
    if kind == 1:
        return Wants({i: _random_want(rng, seen.jobs[i]) for i in chosen})
    return Shares({i: {rng.choice(("t4", "v100")): rng.random()} for i in chosen})


def _random_want(rng: Random, wanted: JobView) -> Want:
    request = wanted.request
    fixed = not wanted.abilities & Ability.RESIZE
    size = request.workers if fixed else rng.randint(request.min_workers, request.max_workers)
    return Want(size, spread=rng.choice(tuple(Spread)))


@given(views(), st.randoms(use_true_random=False))
def test_whatever_a_policy_intends_lowering_keeps_the_limits_without_the_guard(seen: View, rng: Random) -> None:
    found = lowered(random_intent(rng, seen), seen)
    check_limits(found.grants, seen)
    assert not found.refused
    assert found.waiting.keys() == seen.jobs.keys() - found.grants.keys()


@given(views(rigid=True, movable=True), st.randoms(use_true_random=False))
def test_lowering_the_same_intent_again_changes_nothing(seen: View, rng: Random) -> None:
    intent = random_intent(rng, seen)
    grants = lowered(intent, seen).grants
    assert lowered(intent, applied(seen, grants, None)).grants == grants


@given(views(), st.randoms(use_true_random=False))
def test_the_order_in_which_nodes_and_jobs_are_listed_does_not_matter(seen: View, rng: Random) -> None:
    intent = random_intent(rng, seen)
    turned = {"jobs": dict(reversed(seen.jobs.items())), "nodes": dict(reversed(seen.nodes.items()))}
    assert lowered(intent, seen) == lowered(intent, replace(seen, **turned))
