"""Nodes, wishes, containment, recovery, housekeeping and decisions of a control plane, each by itself."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from elastane.cluster import Grant
from elastane.engines.contract import Ending
from elastane.engines.local.paths import Layout
from elastane.jobs.states import State
from elastane.service.control.apply import GrantApplier
from elastane.service.control.containment import Containment
from elastane.service.control.engine_driver import wanted
from elastane.service.control.housekeeping import Housekeeping
from elastane.service.control.ledger import Ledger
from elastane.service.control.policy_runner import PolicyRunner, ShadowPolicy
from elastane.service.control.recovery import Recovery
from elastane.service.control.round import DecisionRound
from elastane.service.control.settings import ControlSettings
from elastane.service.packages import Packages
from service.control.parts import Parts, parts
from service.helpers import Strange, raises, window

HELD = Grant.of([("n0", 1)])


def containment(p: Parts) -> Containment:
    return Containment(p.ledger, p.driver, p.suspects)


def decisions(p: Parts, home: Path, policy: Strange, shadow: Strange | None = None) -> DecisionRound:
    return DecisionRound(
        ControlSettings(home, interval_s=5.0),
        p.ledger,
        p.cluster,
        PolicyRunner(30.0),
        GrantApplier(p.ledger, p.cluster, p.clock),
        p.driver,
        containment(p),
        p.clock,
        policy,
        ShadowPolicy(shadow) if shadow else None,
    )


def test_nodes_that_come_and_go_are_noticed_once_and_draining_ones_are_marked(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        assert not p.cluster.look()
        p.engine.lose_node("n1")
        assert set(p.cluster.answering) == {"n0", "n1"}  # until it is looked again
        assert p.cluster.look()
        assert set(p.cluster.answering) == {"n0"}
        assert set(p.cluster.known()) == {"n0", "n1"}
        p.cluster.drain(frozenset({"n0"}))
        assert p.cluster.usable()["n0"].draining


@pytest.mark.parametrize(("ending", "meant"), [("suspend", Ending.SUSPEND), ("cancel", Ending.CANCEL)])
def test_a_job_that_is_to_end_is_wanted_without_a_grant(tmp_path: Path, ending: str, meant: Ending) -> None:
    with parts(tmp_path) as p:
        job = p.job(HELD)
        assert wanted(job, Layout(tmp_path)).grant == HELD
        job.row = replace(job.row, ending=ending)  # type: ignore[arg-type]
        leaving = wanted(job, Layout(tmp_path))
        assert (leaving.grant, leaving.ending) == (None, meant)


def test_the_place_of_a_jobs_checkpoints_has_its_id(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        job = p.job(HELD)
        assert wanted(job, Layout(tmp_path)).launch.checkpoints == ""
        other = p.job(HELD)
        other.spec = other.spec.model_copy(update={"checkpoints": "s3://bucket/{job}-ab"})
        assert wanted(other, Layout(tmp_path)).launch.checkpoints == f"s3://bucket/{other.id}-ab"


def test_the_engine_hears_only_of_jobs_that_have_processes(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        runs, waits = p.job(HELD), p.job()
        p.driver.ensure_all()
        assert set(p.engine.starts) == {runs.attempt}
        assert waits.attempt not in p.engine.starts


def test_a_job_that_is_set_aside_forgets_what_it_learned_and_ends(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        job, innocent = p.job(HELD), p.job(Grant.of([("n1", 1)]))
        job.learned.hear(window(1.0, 0.5))
        containment(p).set_aside(job, ValueError("1e400 workers"))
        assert job.learned.training is None
        assert (job.row.ending, "1e400 workers" in job.row.reason) == ("cancel", True)
        assert innocent.row.ending == ""


def test_only_jobs_that_no_view_can_be_made_of_are_set_aside(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        bad, good = p.job(HELD), p.job(Grant.of([("n1", 1)]))
        assert not containment(p).set_aside_unreadable(("cpu",))
        bad.row = replace(bad.row, kind="no such kind")
        assert containment(p).set_aside_unreadable(("cpu",))
        assert (bad.row.ending, good.row.ending) == ("cancel", "")


def test_recovery_holds_what_it_can_read_and_says_what_it_cannot(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        good, bad = p.job(HELD).id, p.stored(workers="many").id
        p.ledger = Ledger(p.store, p.past, p.cluster.accelerator, p.clock)  # as after a start
        recovery = Recovery(p.ledger, containment(p), p.suspects, p.clock)
        recovery.take_up_jobs()
        assert list(p.ledger.live) == [good]
        assert list(p.ledger.unread) == [bad]
        assert [bad in problem and "left alone" in problem for problem in recovery.problems] == [True]


def test_recovery_finds_workers_that_have_not_left_yet(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        job = p.job(HELD)
        p.driver.ensure(job)
        job.row = replace(job.row, grant=Grant.of([("n1", 1)]))
        job.places = {"n1": 1}
        Recovery(p.ledger, containment(p), p.suspects, p.clock).find_workers(p.engine)
        assert job.places == {"n0": 1, "n1": 1}


def test_expired_tokens_are_closed_so_that_no_clock_opens_them_again(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        with p.store.transaction() as t:
            t.accounts.add_user("ann", "user")
            t.accounts.add_token("ann", expires_s=p.clock.now_s + 5.0)
        keeping = Housekeeping(p.store, p.clock, Packages(tmp_path, p.store))
        p.clock.now_s += 60.0
        assert p.store.accounts.expired_tokens(p.clock.now_s)
        asyncio.run(keeping.keep())
        assert not p.store.accounts.expired_tokens(p.clock.now_s)


def test_a_decision_is_made_stored_and_told_to_the_engine(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        job, made = p.job(), decisions(p, tmp_path, Strange(), Strange())
        asyncio.run(made.decide("arrival"))
        assert (job.row.state, made.rounds.count, made.rounds.problem) == (State.STARTING, 1, "")
        assert p.engine.starts == {job.attempt: 1}
        assert made.rounds.due_s == p.clock.now_s + 5.0
        assert p.store.log.last_decision_seq() == 1
        assert made.shadow is not None
        assert (made.shadow.decisions, made.shadow.differs) == (1, 0)


def test_a_policy_that_fails_changes_nothing_and_its_successor_starts_without_its_memory(
    tmp_path: Path,
) -> None:
    with parts(tmp_path) as p:
        job, made = p.job(), decisions(p, tmp_path, raises(ValueError("no")))
        asyncio.run(made.decide("arrival"))
        assert job.row.state is State.QUEUED
        assert "crashed" in made.rounds.problem
        made.use_policy(Strange(), memory=None)
        asyncio.run(made.decide("policy"))
        assert (job.row.state, made.rounds.problem) == (State.STARTING, "")
