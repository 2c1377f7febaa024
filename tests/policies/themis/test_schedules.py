"""Themis over time: leases that hold, winners that are not moved, and what becomes of free GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elastane.cluster import Cluster, Grant
from elastane.jobs.kinds import Kind
from elastane.models.estimate import Estimate, Provenance
from elastane.policies.options import OptionError
from elastane.policies.registry import make_policy
from elastane.policies.themis import Themis, ThemisOracle
from elastane.policies.themis.history import history_of
from elastane.policies.view import ELASTIC, Facts, JobState, JobView, Ledger, Request, View
from elastane.scheduling.changes import Renew, changes
from elastane.scheduling.decide import decide
from elastane.simcore.job_run import Arrival
from elastane.simcore.physics import Physics
from helpers.fixed_job import FixedJob, FixedSpeed

INFO = Themis.needs.info


def known(name: str, submit_s: float, workers: int, seconds: float, *, elastic: bool = False) -> JobView:
    """A waiting job whose speed and work are known: proportional to its workers if it is elastic."""
    fixed = FixedJob(seconds, workers, linear=elastic)
    facts = Facts(remaining=Estimate(seconds, source=Provenance.ORACLE), speed=FixedSpeed(fixed))
    request = Request(workers, 1 if elastic else workers, workers)
    return JobView(name, submit_s, request, abilities=ELASTIC, facts=facts, visible=INFO)


def view(now_s: float, *jobs: JobView, gpus: int = 4, memory=None, nodes: int = 1) -> View:
    machines = Cluster.uniform(nodes, gpus // nodes).nodes
    return View(now_s, {job.id: job for job in jobs}, machines, visible=INFO, memory=memory)


def after(made, now_s: float, *new: JobView) -> View:
    """The view at a later time, the plan applied and nothing else done."""
    jobs = {}
    for job in made.view.jobs.values():
        grant = made.grants.get(job.id)
        state = JobState.RUNNING if grant else job.state
        jobs[job.id] = replace(job, grant=grant, state=state, ledger=Ledger(now_s, first_start_s=0.0))
    jobs.update((job.id, job) for job in new)
    return replace(made.view, now_s=now_s, jobs=jobs, memory=made.plan.memory)


def test_a_lease_holds_until_it_ends(schedule, job) -> None:
    """THE-4: A holds all four GPUs until 1200; B, there since 300, is further behind and has them from then on."""
    jobs = [job("A", 4, 3000.0), job("B", 4, 1000.0, at=300.0)]
    seen = schedule(ThemisOracle(), jobs)
    assert seen.runs["A"][0] == (0.0, 1200.0)
    assert seen.runs["B"][0][0] == 1200.0
    assert seen.at(300.0)[2].waiting["B"]


def test_idle_gpus_wait_for_no_lease(schedule, job) -> None:
    seen = schedule(ThemisOracle(), [job("A", 2, 3000.0), job("B", 2, 1000.0, at=300.0)])
    assert seen.runs == {"A": [(0.0, 3000.0)], "B": [(300.0, 1300.0)]}


def test_gpus_of_a_job_that_ends_are_auctioned_at_once(schedule, job) -> None:
    seen = schedule(ThemisOracle(), [job("A", 4, 500.0), job("B", 4, 500.0, at=100.0)])
    assert seen.runs == {"A": [(0.0, 500.0)], "B": [(500.0, 1000.0)]}


def test_winning_the_same_gpus_again_restarts_nothing(schedule, job) -> None:
    """THE-4: every lease is renewed, and the job, for which a restart would cost ten minutes, runs in one piece."""
    seen = schedule(ThemisOracle(), [job("A", 4, 3000.0)], physics=Physics(restart_s=600.0, first_start_s=0.0))
    assert seen.runs["A"] == [(0.0, 3000.0)]
    assert seen.world.jobs["A"].restarts == 0
    assert [made.now_s for _, _, made in seen.decisions] == [0.0, 1200.0, 2400.0]


def test_a_job_that_is_further_behind_than_a_newcomer_wins_its_gpus_again() -> None:
    """THE-4: at 7200 A has ρ = (7200 + 400)/400 = 19, B 10·(100 + 4000)/(2·4000) = 5.1; only a lease changes."""
    policy = ThemisOracle()
    first = decide(policy, view(6000.0, known("A", 0.0, 4, 400.0)))
    assert first.grants["A"].lease_until_s == 7200.0
    assert first.plan.wake_s == (7200.0,)
    later = after(first, 7200.0, known("B", 7100.0, 4, 4000.0))
    second = decide(policy, later)
    assert second.grants.keys() == {"A"}
    assert changes({"A": later.jobs["A"].grant, "B": None}, second) == (Renew("A", second.grants["A"]),)
    assert second.grants["A"].lease_until_s == 8400.0


def test_before_a_lease_ends_not_even_the_lease_changes() -> None:
    policy = ThemisOracle()
    first = decide(policy, view(0.0, known("A", 0.0, 4, 1e6)))
    later = after(first, 1199.0, known("B", 0.0, 4, 10.0))
    second = decide(policy, later)
    assert second.grants == first.grants
    assert "B" in second.waiting


def test_gpus_won_later_end_later() -> None:
    """Two of four GPUs until 1200; when the other two are free at 600 they are added, until 1800, and nothing moves."""
    policy = ThemisOracle()
    a, b = known("A", 0.0, 4, 1e5, elastic=True), known("B", 0.0, 2, 600.0)
    grant = Grant.of([("n000", 2)])
    memory = decide(policy, view(0.0, a, b)).plan.memory
    memory["leases"] = {"A": [["n000", 2, 1200.0]]}
    running = replace(a, grant=grant, state=JobState.RUNNING)
    second = decide(policy, view(600.0, running, memory=memory))
    assert second.grants["A"].slices[0].workers == 4
    assert second.plan.memory["leases"]["A"] == [["n000", 2, 1200.0], ["n000", 2, 1800.0]]
    assert second.grants["A"].lease_until_s == 1200.0
    # At 1200 only the first two are for sale, and a job that is further behind has them.
    third = decide(policy, after(second, 1200.0, known("C", 0.0, 2, 100.0)))
    assert {i: each.workers for i, each in third.grants.items()} == {"A": 2, "C": 2}
    assert third.plan.memory["leases"] == {"A": [["n000", 2, 1800.0]], "C": [["n000", 2, 2400.0]]}


def test_growing_has_to_be_worth_a_restart() -> None:
    policy = ThemisOracle()
    a = replace(known("A", 0.0, 4, 100.0, elastic=True), grant=Grant.of([("n000", 2)]), state=JobState.RUNNING)
    memory = {**decide(policy, view(0.0, a)).plan.memory, "leases": {"A": [["n000", 2, 1200.0]]}}
    for restart_s, workers in ((99.0, 4), (101.0, 2)):  # 200 s with two, 100 s with four
        seen = view(600.0, replace(a, restart_s=restart_s), memory=memory)
        assert decide(policy, seen).grants["A"].workers == workers


def test_gpus_held_without_a_lease_are_for_sale_at_once() -> None:
    a = replace(known("A", 900.0, 4, 1e5), grant=Grant.of([("n000", 4)]), state=JobState.RUNNING)
    made = decide(ThemisOracle(), view(1000.0, a, known("B", 0.0, 4, 100.0)))
    assert made.grants.keys() == {"B"}


def test_what_is_left_goes_to_those_who_did_not_bid() -> None:
    """f = 0.8 shows eight GPUs to one of three jobs of two; the others have theirs all the same."""
    jobs = [known(name, 0.0, 2, 1000.0) for name in "ABC"]
    assert decide(ThemisOracle(), view(100.0, *jobs, gpus=8)).grants.keys() == {"A", "B", "C"}


def test_bundles_on_one_machine_are_preferred() -> None:
    jobs = [known("A", 0.0, 1, 1000.0), known("B", 0.0, 4, 1000.0)]
    made = decide(ThemisOracle(f=0.0), view(100.0, *jobs, gpus=8, nodes=2))
    assert made.grants["B"].shape == (4,)


def test_a_shrinking_job_keeps_whole_machines_first() -> None:
    """It held 1 + 4, two other jobs are further behind, and one lease of four GPUs on the second node goes on."""
    a = replace(
        known("A", 0.0, 5, 1e5, elastic=True),
        grant=Grant.of([("n000", 1), ("n001", 4)]),
        state=JobState.RUNNING,
    )
    policy = ThemisOracle()
    memory = decide(policy, view(0.0, a, gpus=8, nodes=2)).plan.memory
    memory["leases"] = {"A": [["n000", 1, 600.0], ["n001", 4, 1200.0]]}
    made = decide(policy, view(600.0, a, known("B", 0.0, 4, 10.0), gpus=8, nodes=2, memory=memory))
    assert made.grants["A"].slices == Grant.of([("n001", 4)]).slices
    assert made.grants["B"].slices == Grant.of([("n000", 4)]).slices


def test_contention_is_the_average_over_a_life() -> None:
    """One app for 300 s, then two for 900: (300 + 1800)/1200 = 1.75."""
    a, b = known("A", 0.0, 4, 3000.0), known("B", 300.0, 4, 3000.0)
    first = decide(ThemisOracle(), view(0.0, a))
    second = decide(ThemisOracle(), after(first, 300.0, b))
    history = history_of(after(second, 1200.0))
    assert history.contention("A") == pytest.approx(1.75)
    assert history.contention("B") == pytest.approx(2.0)


def test_the_whole_work_is_the_most_that_was_ever_left() -> None:
    a = known("A", 0.0, 4, 3000.0)
    first = decide(ThemisOracle(), view(0.0, a))
    less = replace(a, facts=replace(a.facts, remaining=Estimate(1000.0)))
    assert history_of(replace(first.view, jobs={"A": less}, memory=first.plan.memory)).jobs["A"].work == 3000.0


def test_jobs_of_which_nothing_is_known_run_and_finish(schedule) -> None:
    jobs = [
        Arrival(f"j{n}", 10.0 * n, FixedJob(2000.0, 2), Request(2, 2, 2), Kind.RIGID, declared_work=None)
        for n in range(6)
    ]
    seen = schedule(Themis(), jobs)
    assert None not in seen.finishes


@pytest.mark.parametrize("wrong", ["themis(f=1)", "themis(f=-0.1)", "themis(lease_s=0)"])
def test_impossible_parameters_are_refused(wrong: str) -> None:
    with pytest.raises(OptionError, match="themis:"):
        make_policy(wrong)
