"""What the objectives are told, and what they note for the next time."""

from __future__ import annotations

import json
import math
from random import Random

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from elastane.cluster import Node
from elastane.models.estimate import Estimate
from elastane.policies.gavel.finish_time import FinishTimeFairness
from elastane.policies.gavel.inputs import entrants
from elastane.policies.gavel.objective import Case
from elastane.policies.gavel.problem import Problem
from elastane.policies.gavel.released_fifo import ReleasedFifo
from elastane.policies.lowering import lower
from elastane.policies.plan import Plan, Received, Shares
from elastane.policies.view import Facts, Info, JobView, Ledger, Request, Tenant, View
from elastane.testing.policies.checks import check_limits
from elastane.testing.policies.variants import NonsenseSpeed, applied
from elastane.testing.policies.views import views

SEEN = Info.SPEED | Info.REMAINING | Info.DEADLINE | Info.PRICES


def known(name: str, workers: int = 1, **other: object) -> JobView:
    return JobView(name, 0.0, Request(workers, workers, workers), visible=SEEN, **other)  # type: ignore[arg-type]


def view(*jobs: JobView, nodes: list[Node], now_s: float = 100.0) -> View:
    tenants = {"left": Tenant(weight=3.0)}
    return View(now_s, {job.id: job for job in jobs}, {node.id: node for node in nodes}, tenants=tenants)


def test_a_problem_says_who_can_run_where_and_at_what_price() -> None:
    nodes = [
        Node("a", 4, "v100", price_per_gpu_h=3.0),
        Node("b", 2, "k80"),
        Node("c", 2, "k80", price_per_gpu_h=1.0),
    ]
    speed = Facts(speed=NonsenseSpeed(5.0), remaining=Estimate(700.0), deadline_s=400.0)
    wide = JobView(
        "wide", 0.0, Request(4, 4, 4, max_nodes=1), visible=SEEN, facts=speed, tenant="left", weight=2.0
    )
    found = entrants(view(wide, known("new"), nodes=nodes), aware=True)
    assert (found.jobs, found.types) == (("new", "wide"), ("k80", "v100"))
    # Nobody has timed the new one; no single node of K80s holds the wide one.
    assert found.problem.rates.tolist() == [[1.0, 1.0], [0.0, 5.0]]
    assert found.problem.capacity.tolist() == [4.0, 4.0]
    assert found.problem.price.tolist() == [0.5, 3.0]
    assert found.problem.weight.tolist() == [1.0, 2.0]
    assert found.problem.left_s.tolist() == [math.inf, 300.0]
    assert found.problem.entity_weight[found.problem.entity].tolist() == [1.0, 3.0]
    assert entrants(view(wide, nodes=nodes), aware=False).problem.rates.tolist() == [[0.0, 1.0]]


def test_a_job_of_unknown_length_has_as_much_before_it_as_behind_it() -> None:
    nodes = [Node("a", 4)]
    old = known("old", facts=Facts(speed=NonsenseSpeed(2.0)), ledger=Ledger(held_s=9000.0))
    new = known("new", facts=Facts(speed=NonsenseSpeed(2.0)))
    assert entrants(view(old, new, nodes=nodes), aware=True).problem.remaining.tolist() == [7200.0, 18000.0]


def test_time_on_an_equal_share_adds_up_over_allocations() -> None:
    problem = Problem.of(np.array([[2.0], [2.0]]), np.array([1.0]), remaining=np.array([100.0, 100.0]))
    # A private half of one GPU is stretched to all of the time, as in the released code: 2 steps per second each.
    first = FinishTimeFairness().allocate(Case(problem, ("x", "y"), ("t4",), {}))
    assert first.notes == {"x": [0.0, 100.0, 2.0], "y": [0.0, 100.0, 2.0]}
    later = Problem.of(np.array([[2.0], [2.0]]), np.array([1.0]), remaining=np.array([60.0, 100.0]))
    second = FinishTimeFairness().allocate(
        Case(later, ("x", "y"), ("t4",), json.loads(json.dumps(first.notes)))
    )
    assert second.notes["x"] == [20.0, 60.0, 2.0]


def released(
    widths: list[float], jobs: tuple[str, ...], notes: dict[str, object]
) -> tuple[dict[str, str], dict]:
    types = ("k80", "p100", "v100")
    problem = Problem.of(np.ones((len(widths), 3)), np.array([4.0, 2.0, 1.0]), np.array(widths))
    found = ReleasedFifo().allocate(Case(problem, jobs, types, notes))
    return {job: types[int(row.argmax())] for job, row in zip(jobs, found.x, strict=True) if row.any()}, dict(
        found.notes
    )


def test_the_released_fifo_gives_the_last_type_although_the_job_does_not_fit() -> None:
    given_types, _ = released([2.0], ("x",), {})
    assert given_types == {"x": "v100"}


def test_the_released_fifo_keeps_types_and_goes_on_where_its_random_source_was() -> None:
    first, notes = released([1.0, 1.0], ("x", "y"), {})
    notes = json.loads(json.dumps(notes))
    again, unchanged = released([1.0, 1.0], ("x", "y"), notes)
    assert again == first
    assert unchanged == notes
    # x ends; the first who waits takes its place.
    after, _ = released([1.0, 1.0], ("y", "z"), notes)
    assert after == {"y": first["y"], "z": first["x"]}


@given(views(rigid=True, movable=True), st.randoms(use_true_random=False))
def test_rounds_keep_the_limits_and_stay_when_asked_again(seen: View, rng: Random) -> None:
    jobs = [job for job in sorted(seen.jobs) if rng.random() < 0.8]
    types = tuple(sorted({node.gpu_type for node in seen.nodes.values()}))
    shares = {job: {kind: rng.choice((0.0, rng.random())) for kind in types} for job in jobs}
    seconds = {
        job: {kind: rng.choice((0.0, rng.random())) for kind in types} for job in jobs if rng.random() < 0.9
    }
    plan = Plan(Shares(shares, Received(seconds, {}, types, rng.random() < 0.5)))
    lowered = lower(plan, seen)
    check_limits(lowered.grants, seen)
    assert not lowered.refused
    assert lower(plan, applied(seen, lowered.grants, None)).grants == lowered.grants


@pytest.mark.parametrize("fill", [True, False])
def test_jobs_that_the_shares_do_not_name_get_nothing(fill: bool) -> None:
    seen = view(known("x"), known("y"), nodes=[Node("a", 4)])
    plan = Plan(Shares({"x": {"t4": 1.0}}, Received({}, {}, ("t4",), fill)))
    assert set(lower(plan, seen).grants) == {"x"}
