"""PickyMan-style preemption: schedules by hand (PIK-1 to PIK-4), in the small world and on single views."""

from __future__ import annotations

import pytest

from elastane.cluster import Batch, Cluster, Grant, Node
from elastane.jobs.kinds import Kind
from elastane.models.estimate import Estimate
from elastane.models.goodput import BatchLimits
from elastane.policies.lowering import lower
from elastane.policies.options import OptionError
from elastane.policies.pickyman import PickyMan
from elastane.policies.pickyman.victims import Runner, by_end, start_without, victims
from elastane.policies.view import Ability, Facts, JobState, JobView, Ledger, Request, View
from elastane.scheduling.abilities_by_kind import ABILITIES
from elastane.simcore.behaviour import Pace
from elastane.simcore.job_run import Arrival
from elastane.simcore.physics import Physics
from elastane.simcore.world import World

NOW_S = 10_000.0


def job(
    name: str,
    left_s: float | None,
    gpus: int = 1,
    began_s: float | None = None,
    restarts: int = 0,
    abilities: Ability = ABILITIES[Kind.RIGID],
    nodes: tuple[str, ...] = ("n0",),
) -> JobView:
    """A job whose restart takes 30 s; with ``began_s`` one that runs since it was ready so many seconds ago."""
    changed_s = None if began_s is None else NOW_S - began_s - 30.0
    return JobView(
        name,
        NOW_S,
        Request(gpus, gpus, gpus),
        abilities=abilities,
        state=JobState.PENDING if began_s is None else JobState.RUNNING,
        grant=None if began_s is None else Grant.of([(node, gpus // len(nodes)) for node in nodes]),
        ledger=Ledger(NOW_S, gpus, first_start_s=changed_s, last_change_s=changed_s, restarts=restarts),
        restart_s=30.0,
        facts=Facts(remaining=None if left_s is None else Estimate(left_s)),
        visible=PickyMan.needs.info,
    )


def claims(*jobs: JobView, gpus: int) -> dict[str, dict[str, float]]:
    """Who will stop for whom, and in how many seconds."""
    view = View(NOW_S, {job.id: job for job in jobs}, {"n0": Node("n0", gpus)}, visible=PickyMan.needs.info)
    memory = PickyMan().decide(view).memory or {}
    return {i: {victim: at_s - NOW_S for victim, at_s in stops.items()} for i, stops in memory.items()}


# R1 is ready since 550 s, so its epoch of 600 s ends in 50 s; that of R2 in 580 s.
R1, R2 = job("r1", 9_000.0, began_s=550.0), job("r2", 9_000.0, began_s=20.0)


def test_who_is_nearest_to_its_epoch_end_makes_room() -> None:
    # PIK-1.  Both would lose 30 s.  Q (60 s, and 30 to start) begins in 50 s with R1, in 580 with R2.
    view = View(
        NOW_S,
        {each.id: each for each in (R1, R2, job("q", 60.0))},
        {"n0": Node("n0", 2)},
        visible=PickyMan.needs.info,
    )
    plan = PickyMan().decide(view)
    assert plan.memory == {"q": {"r1": NOW_S + 50.0}}
    assert plan.wake_s == (NOW_S + 50.0,)
    lowered = lower(plan, view)
    assert lowered.grants.keys() == {"r1", "r2"}
    assert lowered.waiting == {"q": "waits for r1, whose epoch ends in 50 s"}


def test_nobody_is_stopped_if_a_gpu_is_free_sooner() -> None:
    # PIK-2.  R3 ends in 40 s, before R1's epoch does.  If it ends in 70 s, 20 s are gained, for which 30 would be lost.
    assert claims(R1, R2, job("r3", 40.0, began_s=300.0), job("q", 60.0), gpus=3) == {}
    assert claims(R1, R2, job("r3", 70.0, began_s=300.0), job("q", 60.0), gpus=3) == {}
    assert claims(R1, R2, job("r3", 90.0, began_s=300.0), job("q", 60.0), gpus=3) == {"q": {"r1": 50.0}}


def test_no_job_is_stopped_that_ends_before_the_one_that_wants_its_place() -> None:
    # PIK-3.  R has 45 s left, Q takes 60 s and 30 to start; a stop of R, alone, would bring it 1 s.
    assert claims(job("r", 45.0, began_s=599.0), job("q", 60.0), gpus=1) == {}
    assert claims(job("r", 119.0, began_s=550.0), job("q", 60.0), gpus=1) == {}  # 60 + 30 + 30 is more
    assert claims(job("r", 900.0, began_s=550.0), job("q", 60.0), gpus=1) == {"q": {"r": 50.0}}


def test_a_pinned_a_cooling_and_an_unpredictable_job_are_left_alone() -> None:
    for kept in (
        job("r", 9_000.0, began_s=550.0, abilities=Ability.NONE),
        job("r", 9_000.0, began_s=550.0, restarts=1),
        job("r", None, began_s=550.0),
    ):
        assert claims(kept, job("q", 60.0), gpus=1) == {}
    assert claims(R1, job("q", None), gpus=1) == {}


def test_each_job_that_waits_claims_others() -> None:
    # The shorter first: Q1 takes the nearest epoch end, Q2 the other.
    found = claims(R1, R2, job("q2", 70.0), job("q1", 60.0), gpus=2)
    assert found == {"q1": {"r1": 50.0}, "q2": {"r2": 580.0}}


def test_those_that_are_not_needed_are_spared_the_largest_loss_first() -> None:
    runners = [
        Runner("a", 1, 9e3, 10.0, 30.0),
        Runner("b", 2, 9e3, 20.0, 30.0),
        Runner("c", 4, 9e3, 30.0, 30.0),
    ]
    assert [each.id for each in victims(4, 90.0, 0, 5e3, runners)] == ["c"]
    assert [each.id for each in victims(3, 90.0, 0, 5e3, runners)] == ["a", "b"]
    assert victims(8, 90.0, 0, 5e3, runners) == ()
    assert start_without(3, 1, by_end([Runner("d", 1, 50.0, 1.0, 0.0), Runner("e", 1, 20.0, 1.0, 0.0)])) == 50.0
    assert start_without(9, 1, runners) == float("inf")


class Steady:
    """A job of one unit of work a second."""

    app, limits = "steady", None

    def __init__(self, seconds: float) -> None:
        self.total_work = seconds

    def pace(self, grant: Grant, gpu_type: str, batch: Batch | None, done: float) -> Pace:
        return Pace(1.0, self.total_work)

    def oracle(self, done: float, limits: BatchLimits | None) -> tuple[Estimate, None]:
        raise AssertionError("no oracle")

    def loss(self, done: float) -> float | None:
        return None


def lived(*jobs: tuple[str, float, float, int], gpus: int) -> World:
    """A life of jobs (name, submitted, seconds, GPUs) with restarts of 30 s and epochs of 600 s."""
    arrivals = [
        Arrival(name, at_s, Steady(seconds), Request(n, n, n), declared_work=seconds)
        for name, at_s, seconds, n in jobs
    ]
    physics = Physics(restart_s=30.0)
    world = World(Cluster.uniform(1, gpus), PickyMan(), arrivals, physics, timer=lambda: 0.0)
    world.run()
    return world


def test_the_work_done_at_a_stop_is_whole_epochs() -> None:
    # PIK-4.  R starts at 0 and is ready at 30 s (if starts cost a restart); Q comes at 700 s and takes 60 s.  R's
    # second epoch ends at 1230 s: two epochs are done, Q runs, R goes on with the
    world = lived(("r", 0.0, 5_000.0, 1), ("q", 700.0, 60.0, 1), gpus=1)
    # third: 3,800 s after another restart.
    assert [(span.start_s, span.end_s) for span in world.jobs["r"].spans] == [
        (0.0, 1_230.0),
        (1_320.0, 5_150.0),
    ]
    assert [(span.start_s, span.end_s) for span in world.jobs["q"].spans] == [(1_230.0, 1_320.0)]


def test_gpus_of_those_that_stopped_first_are_kept_for_the_job_that_claims_them() -> None:
    # R1 starts at 0 and R2 at 100 s.  Q, on two GPUs, comes at 700 s: R2 stops at 730, its first epoch end, and R1 at
    # 1,230, its second.  Between the two neither R2 nor S, which comes at 800 s, may have the GPU that is free.
    world = lived(
        ("r1", 0.0, 5_000.0, 1),
        ("r2", 100.0, 5_000.0, 1),
        ("q", 700.0, 60.0, 2),
        ("s", 800.0, 3_000.0, 1),
        gpus=2,
    )
    starts = {name: [span.start_s for span in job.spans] for name, job in world.jobs.items()}
    assert starts["q"] == [1_230.0]
    assert starts["r2"][:1] == [100.0]
    assert min(starts["s"] + starts["r2"][1:]) == 1_320.0


@pytest.mark.parametrize("wrong", [{"epoch_s": 0.0}, {"cooldown_s": -1.0}, {"ageing_s": 0.0}])
def test_options_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="epoch_s is from 1"):
        PickyMan(**wrong)
