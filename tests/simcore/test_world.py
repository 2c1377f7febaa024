"""The event core keeps its books: service, progress, restarts, outages, interference, capacity."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastane.cluster import Cluster, Grant
from elastane.errors import ElastaneError
from elastane.jobs.kinds import Kind
from elastane.policies.contract import Needs, Policy
from elastane.policies.fifo import Fifo
from elastane.policies.plan import Admission, Exact, Plan, Verdict
from elastane.policies.registry import make_policy
from elastane.policies.view import Request, View
from elastane.simcore.job_run import Arrival
from elastane.simcore.physics import Physics
from elastane.simcore.world import Outage, World
from helpers.fixed_job import FixedJob

FREE = Physics(restart_s=0.0)


def rigid(name, gpus, seconds, at=0.0, **arrival):
    request = Request(workers=gpus, max_workers=gpus)
    return Arrival(name, at, FixedJob(seconds, gpus), request, Kind.RIGID, declared_work=seconds, **arrival)


def elastic(name, seconds, most=8):
    request = Request(workers=1, max_workers=most)
    return Arrival(name, 0.0, FixedJob(seconds, 1, linear=True), request, Kind.ADAPTIVE)


@dataclass(frozen=True)
class Script(Policy):
    """Grants from a table: at each listed time (and until the next) exactly these."""

    table: tuple[tuple[float, tuple[tuple[str, Grant], ...]], ...] = ()

    name: ClassVar[str] = "script"
    title: ClassVar[str] = "Script"
    paper: ClassVar[str] = ""
    needs: ClassVar[Needs] = Needs()

    def decide(self, view: View) -> Plan:
        grants = [grants for when, grants in self.table if when <= view.now_s + 1e-9][-1]
        wakes = tuple(when for when, _ in self.table if when > view.now_s + 1e-9)
        return Plan(Exact(dict(grants)), wake_s=wakes[:1])


def script(table) -> Script:
    return Script(tuple((when, tuple(grants.items())) for when, grants in table.items()))


def ran(world, name):
    return [(span.start_s, span.end_s) for span in world.jobs[name].spans]


def one(node="n000", workers=1):
    return Grant.of([(node, workers)])


def two(*counts):
    return Grant.of([(f"n00{i}", k) for i, k in enumerate(counts)])


# ---- books ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["fifo(mode=fit)", "srtf", "tiresias(thresholds=50)", "easy", "drf"])
@pytest.mark.parametrize("restart_s", [0.0, 7.0])
def test_service_is_the_integral_of_what_was_held(policy, restart_s):
    jobs = [rigid(f"j{i}", 1 + i % 4, 10.0 + 13 * (i % 5), 6.0 * i) for i in range(12)]
    world = World(Cluster.uniform(2, 4), make_policy(policy), jobs, Physics(restart_s=restart_s))
    world.run()
    for run in world.jobs.values():
        held = sum(span.end_s - span.start_s for span in run.spans)
        assert run.service_gpu_s == pytest.approx(run.arrival.request.workers * held)
        assert run.held_s == pytest.approx(held)
        restarting_s = sum(span.restarting_s for span in run.spans)  # less where it was stopped meanwhile
        assert restart_s <= restarting_s + 1e-9 <= restart_s * (run.restarts + 1) + 2e-9
        assert run.restart_gpu_s == pytest.approx(run.arrival.request.workers * restarting_s)
        assert held == pytest.approx(run.arrival.behaviour.duration_s + restarting_s)
        assert all(left.end_s <= right.start_s for left, right in pairwise(run.spans))


def test_progress_survives_suspension():
    world = World(
        Cluster.uniform(1, 4),
        make_policy("srtf"),
        [rigid("long", 4, 100), rigid("short", 4, 10, 30.0)],
        FREE,
    )
    world.run(35.0)
    assert world.jobs["long"].done == pytest.approx(30)
    world.run()
    assert world.jobs["long"].finish_s == pytest.approx(110)


def test_a_run_may_stop_anywhere_and_go_on():
    def world():
        jobs = [rigid(f"j{i}", 1 + i % 3, 20, 7.0 * i) for i in range(6)]
        return World(Cluster.uniform(1, 3), make_policy("tiresias(thresholds=15)"), jobs, FREE)

    straight, halting = world(), world()
    straight.run()
    for when in range(0, 200, 9):
        halting.run(float(when))
    halting.run()
    assert {i: ran(halting, i) for i in halting.jobs} == {i: ran(straight, i) for i in straight.jobs}


def test_a_job_that_makes_no_progress_does_not_stop_the_clock():
    # Two workers for a job that can use only one: an end that never comes is no event.
    stuck = Arrival("stuck", 0.0, FixedJob(10, 1), Request(workers=1, max_workers=2), Kind.ADAPTIVE)
    world = World(Cluster.uniform(1, 4), script({0.0: {"stuck": one(workers=2)}}), [stuck], FREE)
    world.run()
    assert world.now_s == 0.0
    assert "stuck" in world.active


@pytest.mark.parametrize("start_s", [0.0, 1.7e9])
def test_the_clock_may_be_large(start_s):
    # Near 1.7e9 neighbouring times are 2.4e-7 s apart, more than the nanosecond that counts as nothing.
    jobs = [rigid(f"j{i}", 1 + i % 3, 10.1 + i / 7, start_s + i / 3) for i in range(20)]
    for policy in ("fifo(mode=fit)", "srtf", "tiresias(thresholds=3/7/11,promote=1)"):
        world = World(Cluster.uniform(1, 3), make_policy(policy), jobs, Physics(restart_s=0.3))
        world.run()
        assert not world.active
        assert len(world.decision_ms) < 2000


# ---- restarts ------------------------------------------------------------------------------------------


def test_every_change_of_grant_costs_a_restart_and_an_equal_grant_costs_nothing():
    table = {
        0.0: {"a": one()},
        20.0: {"a": one()},  # equal: free
        40.0: {"a": one(workers=2)},  # more
        60.0: {"a": one("n001", 2)},  # elsewhere
        80.0: {},
        90.0: {"a": one("n001", 2)},  # back after a pause
    }
    world = World(Cluster.uniform(2, 4), script(table), [elastic("a", 140)], Physics(restart_s=5.0))
    world.run()
    run = world.jobs["a"]
    assert run.restarts == 3
    assert run.restart_gpu_s == pytest.approx(5 * (1 + 2 + 2 + 2))
    # Work: 35 by 40, then 2 x 15 by 60, 2 x 15 by 80; the last 45 take 22.5 s after a restart at 90.
    assert run.finish_s == pytest.approx(90 + 5 + 22.5)


@pytest.mark.parametrize(("first_start_s", "end_s"), [(None, 15.0), (0.0, 10.0), (2.0, 12.0)])
def test_a_first_start_may_cost_something_else(first_start_s, end_s):
    physics = Physics(restart_s=5.0, first_start_s=first_start_s)
    world = World(Cluster.uniform(1, 1), Fifo(), [rigid("a", 1, 10)], physics)
    world.run()
    assert world.jobs["a"].finish_s == pytest.approx(end_s)


# ---- outages -------------------------------------------------------------------------------------------


def test_a_job_whose_node_dies_goes_back_to_its_checkpoint_and_waits_for_the_node():
    physics = Physics(restart_s=10.0, checkpoint_interval_s=100.0)
    jobs = [rigid("a", 4, 1000), rigid("b", 4, 300)]
    outage = Outage("n000", 260.0, 400.0)
    seen = []
    world = World(Cluster.uniform(2, 4), Fifo(), jobs, physics, outages=[outage], on_decision=seen.append)
    world.run()
    # Training since 10; at 260 the last of the checkpoints at 110 and 210 holds 200 s of work.
    # b ends at 310 on the other node, where a resumes: 800 s of work and a restart.
    assert ran(world, "a") == [(0, 260), (310, 310 + 10 + 800)]
    assert ran(world, "b") == [(0, 310)]
    for decision in seen:
        view = decision.view
        if outage.down_s <= decision.now_s < outage.up_s:
            assert "n000" not in view.nodes
            assert all("n000" not in grant.nodes for grant in decision.grants.values())


def test_a_node_that_returns_is_used_again():
    world = World(
        Cluster.uniform(1, 2),
        Fifo(),
        [rigid("a", 2, 50), rigid("b", 1, 10, 20.0)],
        Physics(restart_s=0.0, checkpoint_interval_s=10.0),
        outages=[Outage("n000", 15.0, 30.0)],
    )
    world.run()
    assert ran(world, "a") == [(0, 15), (30, 70)]  # the checkpoint at 10 is what is left
    assert ran(world, "b") == [(70, 80)]


def test_a_job_that_dies_while_restarting_loses_nothing_more():
    world = World(
        Cluster.uniform(1, 1),
        Fifo(),
        [rigid("a", 1, 50)],
        Physics(restart_s=20.0, checkpoint_interval_s=600.0),
        outages=[Outage("n000", 10.0, 30.0)],
    )
    world.run()
    assert ran(world, "a") == [(0, 10), (30, 100)]


# ---- rejection -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bouncer(Fifo):
    """FIFO that turns away what is named."""

    name: ClassVar[str] = "bouncer"

    def decide(self, view: View) -> Plan:
        bad = {i: Admission(Verdict.REJECT, "no") for i in view.jobs if i.startswith("bad")}
        return replace(super().decide(view), admissions=bad)


def test_a_rejected_job_leaves_and_does_not_count_as_finished():
    finished = []
    jobs = [rigid("bad", 4, 100), rigid("good", 4, 10)]
    world = World(Cluster.uniform(1, 4), Bouncer(), jobs, FREE, on_progress=finished.append)
    world.run()
    assert world.rejected == {"bad": "no"}
    assert world.jobs["bad"].finish_s is None
    assert world.jobs["bad"].spans == []
    assert ran(world, "good") == [(0, 10)]
    assert not world.active


# ---- interference --------------------------------------------------------------------------------------


def test_interference_slows_only_distributed_jobs_that_share_a_node_and_only_while_they_do():
    table = {0.0: {"x": two(1, 1, 0), "y": two(0, 1, 1), "z": one("n001"), "w": one("n002", 2)}}
    jobs = [elastic("x", 40), elastic("y", 60), elastic("z", 50), elastic("w", 80)]
    physics = Physics(restart_s=0.0, interference=0.5)
    world = World(Cluster.uniform(3, 4), script(table), jobs, physics)
    world.run()
    finish = {i: run.finish_s for i, run in world.jobs.items()}
    assert finish["z"] == 50  # on one node
    assert finish["w"] == 40
    assert finish["x"] == 40  # at half of 2 a second
    # y: 40 s at half speed, then the last 20 of its 60 at full speed, though nobody was given anything new.
    assert finish["y"] == 50


def test_slots_that_share_cores_are_slower_while_more_are_busy_and_nobody_learns_wrong_times_from_it():
    jobs = [elastic("x", 40), elastic("y", 80)]
    table = {0.0: {"x": one("n000"), "y": one("n001")}}
    world = World(Cluster.uniform(2, 1), script(table), jobs, Physics(restart_s=0.0, cores=1))
    world.run()
    finish = {i: run.finish_s for i, run in world.jobs.items()}
    assert finish["x"] == 80  # at half speed beside y
    assert finish["y"] == 120  # its other half alone
    assert Physics(cores=4).share(4) == Physics().share(100) == 1.0


# ---- determinism ---------------------------------------------------------------------------------------


def log(policy, jobs, seed=0):
    decisions = []
    world = World(
        Cluster.uniform(3, 4),
        make_policy(policy),
        jobs,
        Physics(restart_s=3.0, interference=0.3, observation_noise=0.1),
        seed=seed,
        outages=[Outage("n001", 33.0, 77.0)],
        on_decision=lambda d: decisions.append((d.view.seed, d.plan.explain, d.now_s, d.grants, d.waiting)),
    )
    world.run()
    return decisions


POLICIES = ["fifo", "fifo(mode=fit)", "easy", "drf(preempt=true)", "srsf", "tiresias(thresholds=60,promote=2)"]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_seed_gives_the_same_decisions_in_whatever_order_jobs_are_listed(policy):
    jobs = [rigid(f"j{i:02d}", 1 + i % 5, 20.0 + i, 4.0 * (i // 3), tenant="ab"[i % 2]) for i in range(15)]
    first = log(policy, jobs)
    assert first == log(policy, jobs)
    assert first == log(policy, jobs[::-1])
    assert first[0][0] != log(policy, jobs, seed=1)[0][0]


# ---- any cluster, any jobs -----------------------------------------------------------------------------

CLUSTERS = st.tuples(st.integers(1, 4), st.integers(1, 4))
SIZES = st.lists(
    st.tuples(st.integers(1, 6), st.floats(0.5, 100.0), st.floats(0.0, 100.0)), min_size=1, max_size=15
)


@settings(max_examples=60, deadline=None)
@given(shape=CLUSTERS, sizes=SIZES, restart_s=st.sampled_from([0.0, 2.5]))
def test_capacity_holds_everybody_finishes_and_nothing_is_faster_than_possible(shape, sizes, restart_s):
    cluster = Cluster.uniform(*shape)
    total = cluster.total_gpus
    jobs = [rigid(f"j{i:02d}", min(w, total), t, at) for i, (w, t, at) in enumerate(sizes)]

    def check(decision):
        view = decision.view
        used = Counter()
        for job_id, grant in decision.grants.items():
            assert grant.workers == view.jobs[job_id].request.workers
            used.update({part.node: part.workers for part in grant.slices})
        assert all(used[node] <= view.nodes[node].gpus for node in used)
        free = total - sum(used.values())
        assert all(view.jobs[i].request.workers > free for i in decision.waiting)  # nobody waits who would fit

    world = World(cluster, Fifo(mode="fit"), jobs, Physics(restart_s=restart_s), on_decision=check)
    world.run()
    assert not world.active
    ends = {i: run.finish_s for i, run in world.jobs.items()}
    work = sum(job.request.workers * (restart_s + job.behaviour.duration_s) for job in jobs)
    assert all(ends[j.id] >= j.submit_s + restart_s + j.behaviour.duration_s - 1e-6 for j in jobs)
    assert max(ends.values()) >= min(job.submit_s for job in jobs) + work / total - 1e-6
    assert all(len(run.spans) == 1 and run.restarts == 0 for run in world.jobs.values())


# ---- fixed jobs ----------------------------------------------------------------------------------------


def test_a_fixed_job_tells_its_oracle_the_truth():
    left, speed = FixedJob(10, 4).oracle(3.0, None)
    assert left.mean == 7
    assert list(speed.rates([1, 1], [4, 2])) == [1.0, 0.0]
    assert speed.max_useful == 4
    assert list(FixedJob(10, 4, linear=True).oracle(0.0, None)[1].rates([1, 1], [8, 2])) == [2.0, 0.5]


@pytest.mark.parametrize(("seconds", "workers"), [(0, 1), (-1, 1), (float("inf"), 1), (1, 0)])
def test_a_fixed_job_must_take_time_and_workers(seconds, workers):
    with pytest.raises(ElastaneError, match="positive duration"):
        FixedJob(seconds, workers)
