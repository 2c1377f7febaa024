"""Optimus: schedules computed by hand, for parameter servers, all-reduce and both together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from elastane.cluster import Batch, Cluster, Grant, Node
from elastane.jobs.kinds import Kind
from elastane.models.estimate import Estimate, Provenance
from elastane.models.goodput import BatchLimits
from elastane.models.parameter_server import ParameterServerSpeed, Updates
from elastane.models.ps_learner import FittedServerSpeed
from elastane.models.speed import FloatArray, IntArray, SpeedModel
from elastane.policies.lowering import lower
from elastane.policies.optimus import Optimus, OptimusOracle
from elastane.policies.optimus.resource_pool import ResourcePool
from elastane.policies.plan import Exact, Plan, Spread, Want, Wants
from elastane.policies.view import ELASTIC, Ability, Facts, JobView, Ledger, Request, View
from elastane.resources import Resources
from elastane.scheduling.abilities_by_kind import ABILITIES
from elastane.simcore.behaviour import Pace
from elastane.simcore.job_run import Arrival
from elastane.simcore.physics import Physics
from elastane.simcore.world import World

SLOT = Resources(cpus=1.0)
TWO_CPUS = Resources(cpus=2.0)
GPU_AND_CPU = Resources(gpus=1.0, cpus=1.0)
SYNC = (1.0, 0.0, 1.0, 0.0, 0.0)  # with M = 12 a step takes 12/w + w/p seconds
ASYNC = (6.0, 4.0, 0.0, 1.0)  # a step of all workers together takes 6/w + 4/p + p/w seconds
STALLING = (0.1, 0.0, 0.6, 0.0, 0.31)  # with M = 10: 1/w + 0.6·w/p + 0.31·p


def speed(theta: tuple[float, ...], batch: float = 12.0) -> FittedServerSpeed:
    updates = Updates.SYNC if len(theta) == 5 else Updates.ASYNC
    return FittedServerSpeed(ParameterServerSpeed(updates, batch, theta=theta), 99, 99, max_profiled=99)


def job(
    name: str,
    work: float | None,
    model: SpeedModel | None,
    *,
    server: Resources | None = SLOT,
    worker: Resources = SLOT,
    most: tuple[int, int] = (12, 12),
    abilities: Ability = ELASTIC,
    workers: int = 1,
    grant: Grant | None = None,
    ledger: Ledger | None = None,
) -> JobView:
    request = Request(
        workers=workers,
        max_workers=most[1],
        worker=worker,
        server=server,
        max_servers=most[0] if server is not None else 0,
    )
    remaining = None if work is None else Estimate(work)
    return JobView(
        name,
        float(ord(name[0])),
        request,
        abilities=abilities,
        grant=grant,
        ledger=ledger or Ledger(),
        facts=Facts(remaining=remaining, speed=model),
        visible=Optimus.needs.info,
    )


def machines(*cpus: float, gpus: int = 0) -> dict[str, Node]:
    return {f"n{i}": Node(f"n{i}", gpus, cpus=have) for i, have in enumerate(cpus)}


def view_of(jobs: Iterable[JobView], nodes: dict[str, Node]) -> View:
    return View(0.0, {job.id: job for job in jobs}, nodes, visible=Optimus.needs.info)


def counts(plan: Plan) -> dict[str, tuple[int, int]]:
    """(servers, workers) of each job."""
    assert isinstance(plan.intent, Wants | Exact)
    given: Mapping[str, Want | Grant] = (
        plan.intent.want if isinstance(plan.intent, Wants) else plan.intent.grants
    )
    return {i: (part.servers, part.workers) for i, part in sorted(given.items())}


# ---- parameter servers ------------------------------------------------------------------------------------


def test_synchronous_jobs_share_ten_slots_by_marginal_gain() -> None:
    # T(p,w) = 12/w + w/p: T(1,1) 13, (2,1) 12.5, (1,2) 8, (2,2) 7, (1,3) 7, (2,3) 5.5, (2,4) 5, (3,3) 5, (3,4) 4.33.
    # A has 10 steps, B 4.  Both start with (1,1), which leaves six slots:
    #   A worker 10·5 = 50    -> (1,2), then worker 10, server 10: a tie, the worker wins
    #   B worker  4·5 = 20    -> (1,2), then 4
    #   A worker 10·1 = 10    -> (1,3), then worker 10·(7 − 7) = 0, server 10·1.5 = 15
    #   A server 15           -> (2,3), then worker and server 10·0.5 = 5
    #   A worker  5           -> (2,4), then worker 10·0.1 = 1, server 10·0.67 = 6.7
    #   A server  6.7 (B: 4)  -> (3,4), and all ten slots are taken
    view = view_of([job("a", 10.0, speed(SYNC)), job("b", 4.0, speed(SYNC))], machines(10.0))
    assert counts(Optimus().decide(view)) == {"a": (3, 4), "b": (1, 2)}


def test_gains_are_divided_by_the_amount_of_the_dominant_resource() -> None:
    # T(p,w) = 6/w + 4/p + p/w; 12 steps.  A worker takes 1 of 4 GPUs and 1 CPU (dominant: 1 GPU), a server 2 of
    # 10 CPUs (dominant: 2 CPUs).  T(1,1) 11, (2,1) 10, (1,2) 7.5, (2,2) 6, (1,3) 6.33, (2,3) 4.67, (1,4) 5.75.
    #   (1,1)  worker 12·3.5 = 42,   server 12·1/2 = 6
    #   (1,2)  worker 12·1.17 = 14,  server 12·1.5/2 = 9      undivided, the server would win with 18
    #   (1,3)  worker 12·0.58 = 7,   server 12·1.67/2 = 10
    # Seven CPUs are then gone: 3 workers, 2 servers.
    at_five = view_of(
        [job("a", 12.0, speed(ASYNC), server=TWO_CPUS, worker=GPU_AND_CPU)], machines(5.0, gpus=4)
    )
    at_seven = view_of(
        [job("a", 12.0, speed(ASYNC), server=TWO_CPUS, worker=GPU_AND_CPU)], machines(7.0, gpus=4)
    )
    assert counts(Optimus().decide(at_five)) == {"a": (1, 3)}
    assert counts(Optimus().decide(at_seven)) == {"a": (2, 3)}


def test_a_resource_that_runs_out_stops_only_those_who_need_it() -> None:
    # As above with 5 CPUs: the parameter-server job stops at (1,3) for want of CPUs, holding 3 of 6 GPUs.  The
    # all-reduce job needs GPUs alone and takes the other three, however small its gains (0.6, 0.2 s per GPU).
    shared = job("a", 12.0, speed(ASYNC), server=TWO_CPUS, worker=GPU_AND_CPU)
    ring = job("b", 1.2, Linear(), server=None, worker=Resources(gpus=1.0), most=(0, 3))
    plan = Optimus().decide(view_of([shared, ring], machines(5.0, gpus=6)))
    assert counts(plan) == {"a": (1, 3), "b": (0, 3)}


def test_nothing_is_handed_out_that_gains_nothing() -> None:
    # T(p,w) = w/p grows with w and falls with p: servers up to the owner's limit, no second worker.
    view = view_of([job("a", 10.0, speed((0.0, 0.0, 1.0, 0.0, 0.0)), most=(3, 9))], machines(20.0))
    assert counts(Optimus().decide(view)) == {"a": (3, 1)}


def test_where_one_task_alone_is_useless_two_are_tried_together() -> None:
    # T(1,1) = 1.91; a worker more 2.01, a server more 1.92, both 1.72.  From (2,2): 1.85, 1.83, both 1.86.
    view = view_of([job("a", 10.0, speed(STALLING, 10.0))], machines(20.0))
    assert counts(Optimus().decide(view)) == {"a": (2, 2)}
    assert counts(Optimus(pair_steps=False).decide(view)) == {"a": (1, 1)}


def test_what_no_node_accounts_is_free() -> None:
    # CPUs are unlimited, so servers cost nothing and are added while they gain: T = 12/w + w/p, two GPUs.
    worker = Resources(gpus=1.0)
    view = view_of([job("a", 10.0, speed(SYNC), worker=worker, most=(4, 9))], {"n0": Node("n0", 2)})
    assert counts(Optimus().decide(view)) == {"a": (4, 2)}


def test_amounts_may_be_taken_as_shares_so_that_units_do_not_matter() -> None:
    nodes = machines(10.0, gpus=4).values()
    server, worker = Resources(cpus=2.0), Resources(gpus=1.0, cpus=1.0)
    assert [ResourcePool(nodes).task(task).amount for task in (server, worker)] == [2.0, 1.0]
    by_share = ResourcePool(nodes, by_share=True)
    assert [by_share.task(task).amount for task in (server, worker)] == pytest.approx([0.8, 1.0])  # GPUs' worth


def test_young_jobs_bid_a_little_less() -> None:
    # Equal jobs, three free slots: A and B take one each, and A, being first, the third, unless A is the young one.
    old = Ledger(held_s=1e4)
    jobs = [job("a", 10.0, speed(SYNC)), job("b", 10.0, speed(SYNC), ledger=old)]
    view = view_of(jobs, machines(7.0))
    assert counts(Optimus().decide(view)) == {"a": (1, 3), "b": (1, 2)}
    assert counts(Optimus(young_factor=0.95).decide(view)) == {"a": (1, 2), "b": (1, 3)}


# ---- what is not known ------------------------------------------------------------------------------------


def test_unknown_remaining_work_counts_as_typical() -> None:
    # B would take 13·10 s on (1,1) like A, the only known job: the same steps in the same order, A first.
    # Workers 50 and 50, A's worker 10 and server 15, B's worker 10 and server 15.
    jobs = [job("a", 10.0, speed(SYNC)), job("b", None, speed(SYNC))]
    assert counts(Optimus().decide(view_of(jobs, machines(8.0)))) == {"a": (2, 3), "b": (1, 2)}
    assert counts(Optimus().decide(view_of(jobs, machines(10.0)))) == {"a": (2, 3), "b": (2, 3)}


def test_a_short_known_job_does_not_starve_an_unknown_one_nor_the_reverse() -> None:
    # Known: 10 and 4 steps, so the typical time is the median of 130 s and 52 s, 91 s: 7 steps.  Seven slots are
    # left.  Workers: a 50, u 35, b 20; then a 10; then servers: a 15; u 7 and b 4 tie with their servers: u 7, and
    # after that u's server (7·1.5 = 10.5).
    jobs = [job("a", 10.0, speed(SYNC)), job("b", 4.0, speed(SYNC)), job("u", None, speed(SYNC))]
    plan = Optimus().decide(view_of(jobs, machines(13.0)))
    assert counts(plan) == {"a": (2, 3), "b": (1, 2), "u": (2, 3)}


def test_when_no_job_knows_its_end_all_are_equal() -> None:
    jobs = [job(name, None, speed(SYNC)) for name in "abc"]
    plan = Optimus().decide(view_of(jobs, machines(9.0)))
    assert counts(plan) == {"a": (1, 2), "b": (1, 2), "c": (1, 2)}


def test_a_job_of_unknown_speed_keeps_its_first_tasks() -> None:
    view = view_of([job("a", None, None), job("b", 5.0, None)], machines(20.0))
    assert counts(Optimus().decide(view)) == {"a": (1, 1), "b": (1, 1)}


def test_a_job_that_cannot_be_resized_gets_a_server_per_worker() -> None:
    view = view_of([job("a", 10.0, speed(SYNC), abilities=ABILITIES[Kind.RIGID], workers=3)], machines(20.0))
    assert counts(Optimus().decide(view)) == {"a": (3, 3)}


# ---- placement and explanations ---------------------------------------------------------------------------


def test_published_layout_two_servers_four_workers_on_three_machines() -> None:
    view = view_of([job("a", 10.0, speed(SYNC))], machines(3.0, 3.0, 3.0))
    plan = Plan(Wants({"a": Want(4, 2, spread=Spread.BALANCED)}))
    grant = lower(plan, view).grants["a"]
    assert [(part.workers, part.servers) for part in grant.slices] == [(2, 1), (2, 1)]


def test_the_policy_itself_arrives_at_the_published_layout() -> None:
    view = view_of([job("a", 10.0, speed(SYNC), most=(2, 4))], machines(3.0, 3.0, 3.0))
    grant = lower(Optimus().decide(view), view).grants["a"]
    assert [(part.workers, part.servers) for part in grant.slices] == [(2, 1), (2, 1)]


def test_small_jobs_are_placed_first() -> None:
    jobs = [job("a", 100.0, speed(SYNC), most=(3, 3)), job("b", 1.0, speed(SYNC), most=(1, 1))]
    plan = Optimus().decide(view_of(jobs, machines(4.0, 4.0)))
    assert isinstance(plan.intent, Wants)
    assert list(plan.intent.want) == ["b", "a"]


def test_the_last_job_without_an_even_place_is_made_smaller_or_paused() -> None:
    # Alone with 4 + 4 + 1 slots the job climbs to (4,5); evenly that needs 5 slots on one of two machines, or 3
    # on each of three.  One worker less stands as (2,2) + (2,2).
    view = view_of([job("a", 10.0, speed(SYNC))], machines(4.0, 4.0, 1.0))
    plan = Optimus().decide(view)
    assert counts(plan) == {"a": (4, 4)}
    assert len(lower(plan, view).grants["a"].slices) == 2
    paused = Optimus(shrink_last=False).decide(view)
    assert counts(paused) == {}
    why = lower(paused, view).waiting["a"]
    assert why.startswith("4 servers and 5 workers stand evenly on no set of nodes")
    assert "room for 4 of its workers" in why


def test_a_job_that_cannot_start_is_told_what_is_missing() -> None:
    need = Resources(gpus=1.0, cpus=4.0)
    jobs = [job(name, 1.0, None, server=Resources(cpus=2.0), worker=need) for name in "ab"]
    view = view_of(jobs, machines(9.0, gpus=4))
    waiting = lower(Optimus().decide(view), view).waiting
    assert waiting == {"b": "needs 1 GPU, 6 CPUs to start, 3 GPUs, 3 CPUs are left after those before it"}


def test_what_cannot_be_suspended_is_counted_before_those_that_came_earlier() -> None:
    grant = Grant.of([("n0", 2)], [("n0", 1)])
    pinned = job("b", 1.0, speed(SYNC), abilities=Ability.NONE, grant=grant)
    plan = Optimus().decide(view_of([job("a", 10.0, speed(SYNC)), pinned], machines(5.0)))
    assert counts(plan) == {"a": (1, 1), "b": (1, 2)}


def test_the_same_view_gives_the_same_plan() -> None:
    jobs = [job("a", 10.0, speed(SYNC)), job("b", None, speed(ASYNC)), job("c", 4.0, speed(STALLING))]
    view = view_of(jobs, machines(7.0, 5.0, 3.0))
    assert Optimus().decide(view) == Optimus().decide(view)


# ---- all-reduce jobs --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Linear:
    """Work per second equal to the workers, up to ``bend``; each one above it adds half as much."""

    bend: int = 99
    source: Provenance = Provenance.ORACLE
    max_profiled: int = 99
    max_useful: int = 99

    def rates(self, nodes: IntArray, workers: IntArray, gpu_type: str = "") -> FloatArray:
        return np.minimum(workers, self.bend) + np.maximum(workers - self.bend, 0) * 0.5

    def best_batch(self, nodes: int, workers: int, gpu_type: str = "") -> Batch | None:
        return None


@dataclass(frozen=True)
class Steady:
    """A job that trains as ``Linear`` says."""

    total_work: float
    model: Linear
    app: str = "steady"
    limits: BatchLimits | None = None

    def pace(self, grant: Grant, gpu_type: str, batch: Batch | None, done: float) -> Pace:
        workers = np.array([grant.workers])
        return Pace(float(self.model.rates(workers, workers)[0]), self.total_work)

    def oracle(self, done: float, limits: BatchLimits | None) -> tuple[Estimate, Linear]:
        return Estimate(self.total_work - done), self.model

    def loss(self, done: float) -> float | None:
        return None


def test_all_reduce_jobs_through_the_world() -> None:
    # Four GPUs, rounds of 10 s, restarts free.  A: 100 units, rate w.  B: 41 units, rate 1 + (w − 1)/2.
    #   10 s  A gains 50, 16.7; B gains 13.7                          -> A 3, B 1
    #   20 s  A 70 left: 35, 11.7; B 31 left: 10.3                    -> the same
    #   30 s  A 40 left: 20, 6.67; B 21 left: 7                       -> A 2, B 2
    #   40 s  A 20 left: 10, 3.33; B 21 − 15 = 6 left: 2              -> A 3, B 1
    #   46 s  B ends; 46.67 s A ends
    jobs = [
        Arrival("a", 0.0, Steady(100.0, Linear()), Request(max_workers=8)),
        Arrival("b", 0.0, Steady(41.0, Linear(bend=1)), Request(max_workers=8)),
    ]
    world = World(
        Cluster.uniform(1, 4), OptimusOracle(), jobs, Physics(restart_s=0.0, interval_s=10.0), timer=lambda: 0.0
    )
    world.run()
    assert world.jobs["a"].finish_s == pytest.approx(46.0 + 2.0 / 3.0)
    assert world.jobs["b"].finish_s == pytest.approx(46.0)
    assert [(span.start_s, span.gpus) for span in world.jobs["a"].spans] == [(10.0, 3), (30.0, 2), (40.0, 3)]


def test_all_reduce_jobs_with_wide_workers_count_all_their_gpus() -> None:
    wide = job("a", 10.0, Linear(), server=None, worker=Resources(gpus=2.0), most=(0, 9))
    plan = Optimus().decide(view_of([wide], {"n0": Node("n0", 7)}))
    assert counts(plan) == {"a": (0, 3)}


def ring(name: str, work: float, grant: Grant | None = None, abilities: Ability = ELASTIC) -> JobView:
    worker = Resources(gpus=1.0)
    return job(name, work, Linear(), server=None, worker=worker, most=(0, 99), grant=grant, abilities=abilities)


def test_no_job_is_promised_more_than_one_accelerator_type_has() -> None:
    nodes = {"n0": Node("n0", 4, "t4"), "n1": Node("n1", 2, "a100")}
    view = view_of([ring("a", 10.0)], nodes)
    plan = Optimus().decide(view)
    assert counts(plan) == {"a": (0, 4)}
    assert lower(plan, view).grants["a"].nodes == ("n0",)


def test_jobs_that_divide_the_sum_but_not_the_types_still_all_run() -> None:
    # Six GPUs, gains 30, 30, 10, 10 -> three each; the second finds only two of one type and is made smaller.
    nodes = {"n0": Node("n0", 4, "t4"), "n1": Node("n1", 2, "a100")}
    view = view_of([ring("a", 60.0), ring("b", 60.0)], nodes)
    assert counts(Optimus().decide(view)) == {"a": (0, 3), "b": (0, 2)}
    assert lower(Optimus().decide(view), view).grants.keys() == {"a", "b"}
    paused = lower(Optimus(shrink_last=False).decide(view), view)
    assert paused.waiting["b"].startswith("3 workers stand together on no set of nodes")


def test_what_a_pinned_job_keeps_on_a_draining_node_is_nobodys_loss() -> None:
    nodes = {"n0": Node("n0", 4, draining=True), "n1": Node("n1", 4)}
    pinned = ring("b", 10.0, Grant.of([("n0", 2)]), Ability.NONE)
    view = view_of([ring("a", 10.0), pinned], nodes)
    assert counts(Optimus().decide(view)) == {"a": (0, 4), "b": (0, 2)}


def test_a_job_that_cannot_move_keeps_what_it_holds() -> None:
    stays = ring("a", 100.0, Grant.of([("n0", 2)]), Ability.SUSPEND | Ability.RESIZE)
    view = view_of([stays, ring("b", 1.0)], {"n0": Node("n0", 8)})
    assert counts(Optimus().decide(view)) == {"a": (0, 2), "b": (0, 6)}
