"""ElasticFlow on schedules computed by hand: shares, admission, left-overs, and what an admitted job may rely on."""

from __future__ import annotations

import numpy as np
import pytest

from elastane.cluster import Batch, Cluster, Grant
from elastane.jobs.kinds import Kind
from elastane.models.estimate import Estimate, Provenance
from elastane.models.goodput import BatchLimits
from elastane.models.speed import FloatArray, IntArray
from elastane.policies.elasticflow import ElasticFlow, ElasticFlowOracle
from elastane.policies.elasticflow.admission import Due, admit, shares_of
from elastane.policies.elasticflow.curves import Curve
from elastane.policies.elasticflow.filling import Slots, minimum_share
from elastane.policies.elasticflow.leftovers import Grower, share_out
from elastane.policies.options import OptionError
from elastane.policies.plan import Verdict
from elastane.policies.registry import make_policy
from elastane.policies.view import ELASTIC, Facts, JobState, JobView, Ledger, Request, View
from elastane.sim.truth.true_speed import TrueSpeed
from elastane.simcore.behaviour import Pace
from elastane.simcore.job_run import Arrival
from elastane.simcore.physics import Physics


def curve(work: float, *rates: float) -> Curve:
    return Curve(tuple(1 << i for i in range(len(rates))), np.array(rates), work)


@pytest.mark.parametrize(("work", "plan"), [(3.0, [1, 4]), (3.01, None), (2.5, [1, 2]), (2.0, [1, 1])])
def test_the_example_of_the_paper(work: float, plan: list[int] | None) -> None:
    """EFL-1: others hold 3 of 4 GPUs in the first of two slots; level 2 does 1 + 1.5, level 4 does 1 + 2."""
    share = minimum_share(curve(work, 1.0, 1.5, 2.0), np.ones(2), np.array([1, 4]))
    assert (None if share is None else share.tolist()) == plan


def test_earlier_slots_are_filled_at_the_level_below() -> None:
    """Level 1 does 4 of the 5; one slot at level 2 (+.5) is too little, two are enough: the latest two."""
    share = minimum_share(curve(5.0, 1.0, 1.5), np.ones(4), np.full(4, 4))
    assert share is not None
    assert share.tolist() == [1, 1, 2, 2]


def test_no_slot_behind_the_deadline_is_used() -> None:
    slots = Slots.until(300.0, 60.0, 100)
    assert slots.seconds_before(150.0).tolist() == [60.0, 60.0, 30.0, 0.0, 0.0]
    share = minimum_share(curve(150.0, 1.0, 1.5), slots.seconds_before(150.0), np.full(5, 4))
    assert share is not None
    assert share.tolist() == [1, 1, 1, 0, 0]
    assert Slots.until(1e6, 60.0, 100).length_s == 1e4


def grower(name: str, *rates: float, work: float = 100.0, rank: int = 0) -> Grower:
    return Grower(name, {"t4": curve(work, *rates)}, rank)


@pytest.mark.parametrize(
    ("a", "b", "sizes", "left"),
    [
        ((1.0, 1.9), (1.0, 1.2), {"A": 2, "B": 1}, 0),
        ((1.0, 0.95), (1.0, 0.9), {"A": 1, "B": 1}, 1),
        ((1.0, 0.9), (1.0, 1.2), {"A": 1, "B": 2}, 0),
    ],
)
def test_left_over_gpus_go_where_they_cost_least(a, b, sizes, left) -> None:
    """EFL-2: A's second GPU costs 2·100/1.9 − 100 = 5.3 GPU s, B's 66.7.  EFL-4: one that slows a job stays idle."""
    given, free = {"A": ("t4", 1), "B": ("t4", 1)}, {"t4": 1}
    share_out([grower("A", *a), grower("B", *b, rank=1)], given, free)
    assert {name: gpus for name, (_, gpus) in given.items()} == sizes
    assert free["t4"] == left


def test_jobs_without_gpus_come_first() -> None:
    given, free = {"A": ("t4", 1)}, {"t4": 1}
    share_out([grower("A", 1.0, 2.0), grower("B", 1.0, work=1e6, rank=1)], given, free)
    assert given == {"A": ("t4", 1), "B": ("t4", 1)}


def due(name: str, work: float, deadline_s: float, *rates: float, submit_s: float = 0.0) -> Due:
    return Due(name, submit_s, deadline_s, {"t4": curve(work, *rates)})


def test_shares_are_filled_in_the_order_of_deadlines() -> None:
    slots = Slots(1.0, 2)
    jobs = [due("late", 2.0, 2.0, 1.0), due("soon", 1.0, 1.0, 1.0)]
    shares, failed = shares_of(jobs, slots, {"t4": np.array([1, 1])})
    assert shares["soon"].gpus.tolist() == [1, 0]
    assert failed == ["late"]


def test_a_new_job_may_not_break_a_promise() -> None:
    """EFL-3: the newcomer alone would fit, but with its earlier deadline the promised job would miss its own."""
    slots, free = Slots(1.0, 2), {"t4": np.array([1, 1])}
    admitted, refused = admit([due("old", 2.0, 2.0, 1.0)], [due("new", 1.0, 1.0, 1.0)], slots, free)
    assert [each.id for each in admitted] == ["old"]
    assert refused == {"new": "old could not keep a promised deadline"}
    _, refused = admit([], [due("big", 5.0, 2.0, 1.0)], slots, free)
    assert refused == {"big": "no number of free GPUs finishes it by its deadline"}


def test_jobs_that_arrive_together_are_answered_one_at_a_time() -> None:
    slots, free = Slots(1.0, 2), {"t4": np.array([1, 1])}
    new = [
        due("second", 1.0, 2.0, 1.0, submit_s=1.0),
        due("third", 1.0, 2.0, 1.0, submit_s=2.0),
        due("first", 1.0, 2.0, 1.0),
    ]
    admitted, refused = admit([], new, slots, free)
    assert [each.id for each in admitted] == ["first", "second"]
    assert list(refused) == ["third"]


# ---- whole lives ---------------------------------------------------------------------------------------


class Scaling:
    """A job that does ``rates[x]`` per second with x GPUs, on one node or several."""

    limits: BatchLimits | None = None
    app = "scaling"

    def __init__(self, work: float, rates: dict[int, float]) -> None:
        self.total_work, self.rates = work, rates

    def pace(self, grant: Grant, gpu_type: str, batch: Batch | None, done: float) -> Pace:
        rate = self.rates.get(grant.workers, 0.0)
        return Pace(rate, self.total_work, gradient_s=1.0, step_s=1.0)

    def oracle(self, done: float, limits: BatchLimits | None) -> tuple[Estimate, TrueSpeed]:
        return Estimate(self.total_work - done, source=Provenance.ORACLE), ScalingSpeed(self.rates)

    def loss(self, done: float) -> float | None:
        return None


class ScalingSpeed(TrueSpeed):
    def __init__(self, known: dict[int, float]) -> None:
        self.known = known

    @property
    def max_useful(self) -> int:
        return max(self.known)

    def rates(self, nodes: IntArray, workers: IntArray, gpu_type: str = "") -> FloatArray:
        return np.array([self.known.get(int(number), 0.0) for number in np.ravel(workers)])

    def best_batch(self, nodes: int, workers: int, gpu_type: str = "") -> Batch | None:
        return None


CURVE = {1: 1.0, 2: 1.5, 4: 2.0}


def arrival(name: str, work: float, at: float, deadline_s: float | None) -> Arrival:
    request = Request(1, 1, 4)
    return Arrival(name, at, Scaling(work, CURVE), request, Kind.RESIZABLE, deadline_s=deadline_s)


@pytest.mark.parametrize("seed", range(12))
def test_whoever_was_admitted_meets_its_deadline_whatever_arrives_later(schedule, seed: int) -> None:
    """EFL-3: a miss counts as a violation, and there is none; refused jobs are those that were told so on arrival."""
    rng = np.random.default_rng(seed)
    jobs = []
    for number in range(30):
        at = 60.0 * float(rng.integers(0, 12))
        work = 60.0 * float(rng.integers(1, 20))
        slack = work * float(rng.uniform(0.6, 4.0))
        jobs.append(arrival(f"j{number:02d}", work, at, at + slack if rng.random() < 0.8 else None))
    seen = schedule(ElasticFlowOracle(), jobs, cluster=Cluster.uniform(2, 2))
    admitted = {
        name
        for _, plan, _ in seen.decisions
        for name, answer in plan.admissions.items()
        if answer.verdict is Verdict.ADMIT
    }
    runs = seen.world.jobs
    missed = [name for name in admitted if runs[name].finish_s > runs[name].arrival.deadline_s + 1e-6]
    assert not missed
    assert admitted
    assert seen.world.rejected.keys() == {j.id for j in jobs if j.deadline_s is not None} - admitted
    assert seen.world.rejected, "there was room for all: nothing was tried"


def test_without_refusals_jobs_that_are_late_get_what_is_left(schedule) -> None:
    jobs = [arrival("a", 240.0, 0.0, 240.0), arrival("b", 6000.0, 0.0, 100.0)]
    seen = schedule(ElasticFlowOracle(best_effort=True), jobs, cluster=Cluster.uniform(1, 4))
    answers = seen.first[1].admissions
    assert answers["a"].verdict is Verdict.ADMIT
    assert answers["a"].promise_s == 240.0
    assert answers["b"].verdict is Verdict.DOWNGRADE
    assert seen.world.jobs["a"].finish_s <= 240.0
    assert seen.world.jobs["b"].finish_s is not None


def test_a_curve_that_is_not_known_is_not_promised_anything() -> None:
    facts = Facts(deadline_s=1000.0)
    job = JobView("j", 0.0, Request(1, 1, 4), abilities=ELASTIC, facts=facts, visible=ElasticFlow.needs.info)
    view = View(0.0, {"j": job}, Cluster.uniform(1, 4).nodes, visible=ElasticFlow.needs.info)
    plan = ElasticFlow().decide(view)
    assert not plan.admissions
    assert plan.intent.grants["j"].workers == 1  # no faster on more, as far as anybody knows


def test_a_promise_is_not_forgotten_while_nobody_can_tell_how_long_its_job_takes() -> None:
    facts = Facts(deadline_s=1000.0)
    job = JobView("j", 0.0, Request(1, 1, 4), abilities=ELASTIC, facts=facts, visible=ElasticFlow.needs.info)
    nodes = Cluster.uniform(1, 4).nodes
    view = View(0.0, {"j": job}, nodes, visible=ElasticFlow.needs.info, memory=["gone", "j"])
    assert ElasticFlow().decide(view).memory == ["j"]


def test_buddies_are_brought_together() -> None:
    """Two jobs of one GPU on two nodes: for four GPUs on one node one of them moves, and nobody is split."""
    running = {
        name: JobView(
            name,
            0.0,
            Request(1, 1, 1),
            abilities=ELASTIC,
            state=JobState.RUNNING,
            grant=Grant.of([(node, 1)]),
            ledger=Ledger(first_start_s=0.0),
            facts=Facts(declared_s=1e4),
            visible=ElasticFlow.needs.info,
        )
        for name, node in (("a", "n000"), ("b", "n001"))
    }
    wide = JobView(
        "w",
        0.0,
        Request(4, 4, 4),
        abilities=ELASTIC,
        facts=Facts(declared_s=1e4),
        visible=ElasticFlow.needs.info,
    )
    view = View(0.0, {**running, "w": wide}, Cluster.uniform(2, 4).nodes, visible=ElasticFlow.needs.info)
    grants = ElasticFlow().decide(view).intent.grants
    assert grants["w"].shape == (4,)
    assert grants["a"].nodes == grants["b"].nodes


@pytest.mark.parametrize("wrong", ["elasticflow(slot_s=0)", "elasticflow(safety_s=-1)"])
def test_impossible_parameters_are_refused(wrong: str) -> None:
    with pytest.raises(OptionError, match="elasticflow:"):
        make_policy(wrong)


def test_restarts_are_made_up_for_by_safety(schedule) -> None:
    jobs = [arrival("a", 240.0, 0.0, 600.0)]
    seen = schedule(
        ElasticFlowOracle(safety_s=60.0), jobs, physics=Physics(restart_s=30.0), cluster=Cluster.uniform(1, 4)
    )
    assert seen.world.jobs["a"].finish_s <= 600.0
