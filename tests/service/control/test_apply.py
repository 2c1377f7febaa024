"""Decisions become rows: places are taken first, given when they are free, and nobody is touched who must not be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from elastane.cluster import Grant
from elastane.jobs.states import State
from elastane.policies.plan import Admission, Exact, Plan, Verdict
from elastane.policies.view import Info, View
from elastane.scheduling.decide import Decision, settle
from elastane.scheduling.facts import Situation
from elastane.scheduling.views import job_view, view_of
from elastane.service.control.apply import GrantApplier
from service.control.parts import Parts, parts


def on(**workers: int) -> Grant:
    return Grant.of(workers.items())


def decided(p: Parts, wanted: dict[str, Grant], *, ends: tuple[str, ...] = ()) -> Decision:
    """A decision about all jobs, as they stand now."""
    jobs = {job.id: job_view(job.facts(8, ("cpu",)), Info.NONE) for job in p.ledger.live.values()}
    view: View = view_of(
        Situation(p.clock.now_s, p.cluster.usable(), p.cluster.known().keys()), jobs, Info.NONE
    )
    said = {job: Admission(Verdict.REJECT, "over its limit") for job in ends}
    return settle(Plan(Exact(wanted), admissions=said), view, ends_jobs=True)


def applied(p: Parts, decision: Decision) -> list[str]:
    with p.ledger.changing() as t:
        return GrantApplier(p.ledger, p.cluster, p.clock).apply(t, decision, {})


def test_a_place_is_given_when_who_had_it_has_left(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        old, new = p.job(on(n0=4), workers=4), p.job(workers=4)
        wanted = {new.id: on(n0=4)}
        assert applied(p, decided(p, wanted)) == [old.id]
        assert (old.row.state, new.row.state) == (State.SUSPENDING, State.QUEUED)
        assert f"being freed by {old.id}" in new.waiting
        # ... and when it has:
        old.places = {}
        old.row = replace(old.row, state=State.SUSPENDED, grant=None, ending="")
        assert applied(p, decided(p, wanted)) == [new.id]
        assert (new.row.state, new.row.attempt, new.waiting) == (State.STARTING, 1, "")


def test_a_command_is_left_alone_whatever_is_decided_unless_it_is_ended(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        command = p.job(on(n0=1), kind="command")
        p.engine.lose_node("n0")
        p.cluster.look()
        assert decided(p, {}).grants == {}
        assert applied(p, decided(p, {})) == []  # that its node is lost is the engine's to say
        assert command.row.state is State.RUNNING
        assert applied(p, decided(p, {}, ends=(command.id,))) == [command.id]
        assert (command.row.state, command.row.verdict, command.row.ending) == (
            State.STOPPING,
            "reject",
            "cancel",
        )
        assert applied(p, decided(p, {}, ends=(command.id,))) == []  # once


def test_nobody_is_refused_for_good_because_a_node_is_away_for_a_while(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        new = p.job(workers=1)
        p.engine.lose_node("n0")
        p.cluster.look()
        assert applied(p, decided(p, {}, ends=(new.id,))) == []
        assert new.row.state is State.QUEUED
        p.engine.bring_back("n0")
        p.cluster.look()
        assert applied(p, decided(p, {}, ends=(new.id,))) == [new.id]
        assert new.row.state is State.REJECTED


def test_a_job_none_of_whose_nodes_is_left_has_nothing_to_save(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        lost, halved = p.job(on(n0=1)), p.job(on(n0=1, n1=1))
        p.engine.lose_node("n0")
        p.cluster.look()
        applied(p, decided(p, {}))
        assert (lost.row.state, halved.row.state) == (State.LOST, State.SUSPENDING)
        assert p.causes(lost) == ["lose"]


def test_another_lease_is_written_down_and_nothing_else_happens(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        job = p.job(on(n0=1))
        leased = Grant(on(n0=1).slices, lease_until_s=99.0)
        assert applied(p, decided(p, {job.id: leased})) == []
        stored = p.store.jobs.job(job.id)
        assert stored is not None
        assert stored.grant == leased
        assert p.causes(job) == []


@pytest.mark.parametrize("asked", ["held", "leaving"])
def test_what_was_asked_for_while_the_policy_was_thinking_stands(tmp_path: Path, asked: str) -> None:
    with parts(tmp_path) as p:
        job = p.job() if asked == "held" else p.job(on(n0=1))
        decision = decided(p, {job.id: on(n1=1)})
        changed = {"held": True} if asked == "held" else {"ending": "cancel", "state": State.STOPPING}
        job.row = replace(job.row, **changed)  # type: ignore[arg-type]
        before = job.row
        assert applied(p, decision) == []
        assert job.row is before
