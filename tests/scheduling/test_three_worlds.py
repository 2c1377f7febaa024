"""Same facts, same plan: the same changes and the same outcome in the simulator, live, and in the conformance world."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from elastane.cluster import Grant, Node
from elastane.jobs.kinds import Kind
from elastane.policies.plan import Admission, Exact, Fill, Intent, Order, Plan, Spread, Verdict, Want, Wants
from elastane.scheduling.changes import End, Move, Refuse, Renew, Resize, Start, Suspend
from scheduling.three_worlds import Step, Wish, three

KINDS = (Kind.ADAPTIVE, Kind.RESIZABLE, Kind.RIGID, Kind.COMMAND)


def random_wishes(rng: Random) -> list[Wish]:
    """Three to seven jobs; a command has one size."""
    found = []
    for _ in range(rng.randint(3, 7)):
        least = rng.choice((1, 1, 2, 3))
        found.append(Wish(rng.choice(KINDS), least, least + rng.randint(0, 5)))
    return found


def random_plan(rng: Random, jobs: list[str], nodes: list[Node]) -> Plan:
    """Whatever a policy might say, mad or not, of jobs that may be gone by now."""
    said = {job: Admission(rng.choice(list(Verdict)), f"why {job}") for job in jobs if rng.random() < 0.12}
    explain = {job: f"because of {job}" for job in jobs if rng.random() < 0.2}
    return Plan(random_intent(rng, jobs, nodes), explain=explain, admissions=said)


def random_intent(rng: Random, jobs: list[str], nodes: list[Node]) -> Intent:
    chosen = [job for job in rng.sample(jobs, len(jobs)) if rng.random() < 0.7]
    draw = rng.random()
    if draw < 0.25:
        return Order(tuple(chosen), rng.choice(list(Fill)), rng.choice((Spread.BEST_FIT, Spread.EMPTIEST)))
    if draw < 0.5:
        return Wants({job: Want(rng.randint(1, 5)) for job in chosen})
    return Exact({job: random_grant(rng, nodes) for job in chosen})


def random_grant(rng: Random, nodes: list[Node]) -> Grant:
    some = rng.sample(nodes, rng.randint(1, len(nodes)))
    lease_s = rng.choice((None, None, 5.0))
    grant = Grant.of([(node.id, rng.randint(1, 3)) for node in some])
    return Grant(grant.slices, lease_until_s=lease_s)


def lead(home: Path, seed: int, steps: int) -> list[Step]:
    """Take three worlds through random plans and compare them after each."""
    rng = Random(seed)
    nodes = [Node(f"n{i}", 4, "cpu") for i in range(rng.randint(1, 3))]
    wishes = random_wishes(rng)
    jobs = [f"j{number}" for number in range(1, len(wishes) + 1)]
    taken: list[Step] = []
    with three(home, wishes, nodes, ends=rng.random() < 0.5) as worlds:
        for number in range(steps):
            plan = random_plan(rng, jobs, nodes)
            simulated, small, live = (world.step(plan) for world in worlds)
            context = f"seed {seed}, step {number}, {plan}"
            assert small == simulated, context
            assert live == simulated, context
            taken.append(simulated)
            if not simulated.held:
                break
    return taken


def test_the_same_plan_means_the_same_in_all_three_worlds(tmp_path: Path) -> None:
    steps = [step for seed in range(6) for step in lead(tmp_path / str(seed), seed, steps=20)]
    assert len(steps) > 50
    kinds = {type(change) for step in steps for change in step.changes}
    assert kinds == {Refuse, End, Suspend, Resize, Move, Renew, Start}  # nothing was left out by chance
    assert {"normal", "opportunistic"} == {klass for step in steps for klass in step.classes.values()}


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_the_same_plan_means_the_same_over_thousands_of_states(tmp_path: Path, block: int) -> None:
    seeds = range(1000 + 12 * block, 1012 + 12 * block)
    steps = [step for seed in seeds for step in lead(tmp_path / str(seed), seed, steps=40)]
    assert len(steps) > 100
