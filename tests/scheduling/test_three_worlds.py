"""Same facts: the same view, decision, changes and outcome in the simulator, live, and in the conformance world."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from elastane.cluster import Grant, Node
from elastane.jobs.kinds import ONE_SIZE, JobClass, Kind
from elastane.policies.plan import Admission, Exact, Fill, Intent, Order, Plan, Spread, Verdict, Want, Wants
from elastane.policies.view import View
from elastane.scheduling.changes import End, Move, Refuse, Renew, Resize, Start, Suspend
from scheduling.three_worlds import Setting, Step, Wish, random_of, three

KINDS = (Kind.ADAPTIVE, Kind.RESIZABLE, Kind.RIGID, Kind.COMMAND)
STEPS = 40


def random_nodes(rng: Random) -> list[Node]:
    """One to four machines of any size; half of the clusters have two types of accelerators."""
    types = ("t4", "v100") if rng.random() < 0.5 else ("t4",)
    return [Node(f"n{i}", rng.choice((2, 4, 4, 8)), rng.choice(types)) for i in range(rng.randint(1, 4))]


def random_wishes(rng: Random, nodes: list[Node]) -> list[Wish]:
    """Three to eight jobs, each of which some type of node could hold."""
    found = []
    for _ in range(rng.randint(3, 8)):
        kind, gpus = rng.choice(KINDS), rng.choice((1, 1, 1, 2))
        types = (rng.choice(nodes).gpu_type,) if rng.random() < 0.3 else ()
        rooms = dict.fromkeys(types or {node.gpu_type for node in nodes}, 0)  # no job gets two types at once
        for node in nodes:
            if node.gpu_type in rooms:
                rooms[node.gpu_type] += node.gpus // gpus
        room = max(rooms.values())
        least = min(rng.choice((1, 1, 2, 3)), room)
        wish = Wish(
            kind,
            least,
            least if kind in ONE_SIZE else least + rng.randint(0, 5),
            gpus=gpus,
            types=types,
            klass=rng.choice(list(JobClass)),
            tenant=rng.choice(("default", "left", "right")),
            priority=rng.choice((0, 0, 1, 5)),
            weight=rng.choice((1.0, 1.0, 2.5)),
            preemptible=rng.random() < 0.85,
            deadline_in_s=rng.choice((None, 60.0, 3600.0)),
            remaining=rng.choice((None, 10.0, 5e4)),
        )
        found.append(wish)
    return found


def thinks(view: View) -> Plan:
    """Whatever a policy might say of what it sees, mad or not, also of jobs that are gone."""
    rng = random_of(view)
    jobs, nodes = [*sorted(view.jobs), "j99"], [view.nodes[name] for name in sorted(view.nodes)]
    said = {job: Admission(rng.choice(list(Verdict)), f"why {job}") for job in jobs if rng.random() < 0.06}
    explain = {job: f"because of {job}" for job in jobs if rng.random() < 0.2}
    return Plan(
        random_intent(rng, jobs, nodes), explain=explain, admissions=said, memory={"last": rng.random()}
    )


def random_intent(rng: Random, jobs: list[str], nodes: list[Node]) -> Intent:
    chosen = [job for job in rng.sample(jobs, len(jobs)) if rng.random() < 0.7]
    draw = rng.random()
    if draw < 0.25:
        return Order(tuple(chosen), rng.choice(list(Fill)), rng.choice((Spread.BEST_FIT, Spread.EMPTIEST)))
    if draw < 0.5 or not nodes:
        return Wants({job: Want(rng.randint(1, 5)) for job in chosen})
    return Exact({job: random_grant(rng, nodes) for job in chosen})


def random_grant(rng: Random, nodes: list[Node]) -> Grant:
    kind = rng.choice(nodes).gpu_type
    alike = [node for node in nodes if node.gpu_type == kind]
    some = rng.sample(alike, rng.randint(1, len(alike)))
    grant = Grant.of([(node.id, rng.randint(1, 3)) for node in some])
    return Grant(grant.slices, lease_until_s=rng.choice((None, None, 5.0)))


def lead(home: Path, seed: int, done: Counter[str], steps: int = STEPS) -> list[Step]:
    """Take three worlds through random states and compare them in each; ``done`` counts what people did.

    It ends where live more than one decision is needed, which is physics: two jobs are to change places on full nodes,
    or an owner's choice of a place becomes possible when another job has left.
    """
    rng = Random(seed)
    nodes = random_nodes(rng)
    setting = Setting(
        random_wishes(rng, nodes), nodes, thinks, rng.random() < 0.5, min_run_s=rng.choice((0.0, 15.0, 45.0))
    )
    taken: list[Step] = []
    with three(home, setting) as (simulator, small, live):
        for number in range(steps):
            done.update(live.act(rng, (simulator, small)))
            for job in taken[-1].held if taken else ():
                if (left := setting.lengths[job]) is not None and taken[-1].held[job]:
                    setting.lengths[job] = left * 0.9
            here, said, complete = live.step()
            there, apart = simulator.step(said), small.step(said)
            context = f"seed {seed}, step {number}: {here.changes}"
            assert here.view == there.view == apart.view, context
            assert (here.grants, here.waiting, here.changes) == (there.grants, there.waiting, there.changes), (
                context
            )
            assert apart == there, context
            taken.append(here)
            if not complete:
                done["stuck"] += 1
                break
            assert here == there, context
            if not here.held:
                break
    return taken


def test_the_same_facts_mean_the_same_in_all_three_worlds(tmp_path: Path) -> None:
    done = Counter[str]()
    steps = [step for seed in range(20) for step in lead(tmp_path / str(seed), seed, done)]
    assert len(steps) > 150
    kinds = {type(change) for step in steps for change in step.changes}
    assert kinds == {Refuse, End, Suspend, Resize, Move, Renew, Start}  # nothing was left out by chance
    assert {"normal", "opportunistic", "guaranteed"} == {
        klass for step in steps for klass in step.classes.values()
    }
    assert done.keys() >= {"_hold", "_resume", "_scale", "_move", "_set_quota", "_outage"}
    assert any("not refused while" in why for step in steps for why in step.waiting.values())


@pytest.mark.slow
def test_the_same_facts_mean_the_same_over_thousands_of_states(tmp_path: Path) -> None:
    done, states, seed = Counter[str](), 0, 1000
    seen = set[str]()
    while states < 2000:
        for step in lead(tmp_path / str(seed), seed, done):
            states += 1
            seen.add(repr(step.view))
        seed += 1
        assert seed < 3000, "runs are too short"
    assert len(seen) >= 2000  # no state counts twice
