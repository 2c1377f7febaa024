"""No plan, however wrong, breaks the cluster's rules; and only the offender pays."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.cluster import Grant, Node, Slice
from elastane.jobs.kinds import Kind
from elastane.policies.lowering.guard import guard
from elastane.policies.view import ELASTIC, Ability, JobState, JobView, Ledger, Request, View
from elastane.resources import Resources
from elastane.scheduling.abilities_by_kind import ABILITIES
from elastane.testing.policies.checks import check_limits
from elastane.testing.policies.views import random_view, views

NODES = (Node("a", 4), Node("b", 4), Node("c", 4, "v100"), Node("d", 4, draining=True))


def job(
    name: str, *held: tuple[str, int], least: int = 1, workers: int = 1, most: int = 8, **rest: object
) -> JobView:
    request = rest.pop("request", Request(workers, least, most))
    state = JobState.RUNNING if held else JobState.PENDING
    grant = Grant.of(held) if held else None
    return JobView(name, 0.0, request, state=state, grant=grant, **rest)  # type: ignore[arg-type]


def view(*jobs: JobView, nodes: tuple[Node, ...] = NODES) -> View:
    return View(0.0, {j.id: j for j in jobs}, {n.id: n for n in nodes})


def test_a_sound_plan_passes_as_it_is() -> None:
    grants = {"x": Grant.of([("a", 3)]), "y": Grant.of([("a", 1), ("b", 4)])}
    assert guard(grants, view(job("x"), job("y"))) == (grants, {})


def test_a_job_that_was_just_started_keeps_its_least_against_newcomers_but_not_for_ever() -> None:
    young = job("x", ("a", 3), ("b", 1), least=2, ledger=Ledger(since_s=90.0))
    grants = {"y": Grant.of([("a", 4)]), "z": Grant.of([("b", 4)])}
    before = replace(view(young, job("y"), job("z")), now_s=100.0, min_run_s=30.0)
    safe, _ = guard(grants, before)
    assert safe == {"x": Grant.of([("a", 2)]), "z": grants["z"]}
    assert guard(grants, replace(before, now_s=120.0))[0] == grants
    # What a plan gives it is what it gets, even if that is less than it had.
    assert guard({"x": Grant.of([("b", 2)])}, before)[0] == {"x": Grant.of([("b", 2)])}


@pytest.mark.parametrize(
    ("subject", "wanted", "reason"),
    [
        (job("x", least=2), Grant.of([("a", 1)]), "1 workers are outside [2, 8]"),
        (job("x"), Grant(()), "0 workers are outside [1, 8]"),
        (job("x", workers=2, abilities=ABILITIES[Kind.RIGID]), Grant.of([("a", 3)]), "cannot be resized to 3"),
        (job("x"), Grant.of([("a", 1)], [("a", 1)]), "1 servers are more than its 0"),
        (job("x"), Grant.of([("a", 1), ("c", 1)]), "different accelerators (t4, v100)"),
        (job("x", request=Request(types=("v100",))), Grant.of([("a", 1)]), "asked for v100, not t4"),
        (job("x", request=Request(2, 1, 2, max_nodes=1)), Grant.of([("a", 1), ("b", 1)]), "more than its 1"),
        (job("x"), Grant((Slice("a", 2), Slice("a", 4))), "names a node twice"),
        (job("x"), Grant((Slice("a", 5), Slice("b", -3))), "impossible numbers"),
        (job("x"), Grant((Slice("a", 1, share=0.0),)), "impossible numbers"),
        (job("x"), Grant((Slice("a", 1), Slice("b", 0))), "impossible numbers"),
        (job("x"), Grant((Slice("a", 1, devices=(4,)),)), "devices that a does not have"),
        (job("x"), Grant((Slice("a", 2, devices=(1, 1)),)), "devices that a does not have"),
        (job("x"), Grant.of([("a", 5)]), "there is no room for 5 workers on a"),
        (job("x"), Grant.of([("gone", 1)]), "gone cannot be used any more"),
        (job("x"), Grant.of([("d", 1)]), "d cannot be used any more"),
    ],
)
def test_a_wrong_grant_is_refused_with_its_reason(subject: JobView, wanted: Grant, reason: str) -> None:
    safe, refused = guard({"x": wanted}, view(subject))
    assert safe == {}
    assert reason in refused["x"]


def test_who_is_refused_keeps_what_it_had() -> None:
    running = job("x", ("a", 2))
    safe, refused = guard({"x": Grant.of([("a", 99)])}, view(running))
    assert safe == {"x": running.grant}
    assert refused.keys() == {"x"}


def test_only_the_offender_pays() -> None:
    """y stands on a already; x, though first in the plan, may not take it away."""
    stays = Grant.of([("a", 4)])
    safe, refused = guard({"x": Grant.of([("a", 4)]), "y": stays}, view(job("x"), job("y", ("a", 4))))
    assert safe == {"y": stays}
    assert refused.keys() == {"x"}


def test_among_newcomers_the_order_of_the_plan_decides() -> None:
    both = {"y": Grant.of([("a", 3)]), "x": Grant.of([("a", 3)])}
    for jobs in ((job("x"), job("y")), (job("y"), job("x"))):
        assert guard(both, view(*jobs))[0].keys() == {"y"}


def test_the_same_device_is_not_given_twice() -> None:
    part = Slice("a", 1, devices=(2,))
    safe, refused = guard({"x": Grant((part,)), "y": Grant((part,))}, view(job("x"), job("y")))
    assert (safe.keys(), refused.keys()) == ({"x"}, {"y"})


@pytest.mark.parametrize(
    "pinned",
    [
        job("p", ("a", 2), request=Request(2, 1, 4, preemptible=False)),
        job("p", ("a", 2), abilities=ELASTIC & ~Ability.SUSPEND),
        job("p", ("d", 2), abilities=ELASTIC & ~Ability.SUSPEND),
    ],
    ids=["not preemptible", "not suspendable", "on a draining node"],
)
@pytest.mark.parametrize("wanted", [None, Grant.of([("a", 3)]), Grant.of([("b", 2)])])
def test_a_pinned_job_keeps_its_grant_whatever_the_plan_says(pinned: JobView, wanted: Grant | None) -> None:
    plan = {"x": Grant.of([("a", 4)])} | ({"p": wanted} if wanted else {})
    safe, refused = guard(plan, view(job("x"), pinned))
    assert safe["p"] == pinned.grant
    assert "cannot be suspended" in refused["p"]


def test_a_pinned_job_whose_node_is_gone_may_start_elsewhere() -> None:
    lost = job("p", ("gone", 2), request=Request(2, 1, 4, preemptible=False))
    new = Grant.of([("b", 2)])
    assert guard({"p": new}, view(lost)) == ({"p": new}, {})


def test_a_job_that_cannot_move_may_be_resized_where_it_is() -> None:
    stuck = job("x", ("a", 2), abilities=ELASTIC & ~Ability.MIGRATE)
    assert guard({"x": Grant.of([("a", 4)])}, view(stuck))[1] == {}
    assert guard({}, view(stuck)) == ({}, {})
    safe, refused = guard({"x": Grant.of([("b", 2)])}, view(stuck))
    assert (safe, refused) == ({"x": stuck.grant}, {"x": "it cannot be moved"})
    leaving = job("x", ("d", 2), abilities=ELASTIC & ~Ability.MIGRATE)
    assert guard({"x": Grant.of([("b", 2)])}, view(leaving))[1] == {}


def test_a_job_that_does_not_exist_is_refused() -> None:
    assert guard({"ghost": Grant.of([("a", 1)])}, view()) == ({}, {"ghost": "no such job"})


@pytest.mark.parametrize(
    ("worker", "fits"), [(Resources(gpus=2.0), 2), (Resources(gpus=0.5), 8), (Resources(1.0, cpus=3.0), 2)]
)
def test_every_resource_of_a_worker_counts(worker: Resources, fits: int) -> None:
    nodes = (Node("a", 4, cpus=8.0),)
    subject = job("x", request=Request(1, 1, 99, worker=worker))
    assert guard({"x": Grant.of([("a", fits)])}, view(subject, nodes=nodes))[1] == {}
    assert "there is no room" in guard({"x": Grant.of([("a", fits + 1)])}, view(subject, nodes=nodes))[1]["x"]


def test_jobs_of_half_a_gpu_do_not_get_it_for_nothing() -> None:
    half = Request(1, 1, 1, worker=Resources(gpus=0.5))
    jobs = [job(f"j{i}", request=half) for i in range(9)]
    safe, _ = guard({j.id: Grant.of([("a", 1)]) for j in jobs}, view(*jobs))
    assert len(safe) == 4


def nonsense(rng: Random, seen: View) -> dict[str, Grant]:
    """Grants by somebody who respects nothing."""
    names = [*seen.nodes, "gone"]
    wild = [rng.choice([*seen.jobs, "ghost"]) for _ in range(rng.randint(0, 12))]
    parts = {i: [Slice(rng.choice(names), rng.randint(-1, 6)) for _ in range(rng.randint(0, 3))] for i in wild}
    return {i: Grant(tuple(slices)) for i, slices in parts.items()}


@given(views(), st.randoms(use_true_random=False))
def test_whatever_is_wanted_the_limits_hold(seen: View, rng: Random) -> None:
    safe, refused = guard(nonsense(rng, seen), seen)
    check_limits(safe, seen)
    for found in seen.jobs.values():
        if seen.must_keep(found):
            assert safe[found.id] == found.grant
    assert all(reason for reason in refused.values())


@given(views(), st.randoms(use_true_random=False))
def test_what_passed_once_passes_again(seen: View, rng: Random) -> None:
    safe, _ = guard(nonsense(rng, seen), seen)
    after = {i: replace(found, grant=safe.get(i)) for i, found in seen.jobs.items()}
    assert guard(safe, replace(seen, jobs=after)) == (safe, {})


@pytest.mark.parametrize("seed", range(50))
def test_the_order_of_jobs_in_the_view_does_not_matter(seed: int) -> None:
    rng = Random(seed)
    seen = random_view(rng)
    plan = nonsense(rng, seen)
    other = replace(seen, jobs=dict(reversed(seen.jobs.items())))
    assert guard(plan, seen) == guard(plan, other)
