"""Nodes that come, go, fall silent, do not fit and are about to leave, between one round and the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastane.cluster import Grant, Node
from elastane.jobs.states import State
from elastane.service.control.near_end import left_alone
from elastane.service.messages import NodeInfo
from elastane.service.protocol import Conflict
from service.control.parts import parts
from service.helpers import ANN, World, started, world

CALM = {"interval_s": 5.0, "min_run_s": 0.0}


def info(w: World, node: str) -> NodeInfo:
    return next(each for each in w.service.nodes() if each.id == node)


def told(w: World, node: str) -> list[str]:
    """States of a node in the event log."""
    return [e.body["state"] for e in w.service.events(0) if e.kind == "node" and e.body["node"] == node]


def nodes_of(w: World, job: str) -> set[str]:
    grant = w.row(job).grant
    return set(grant.nodes) if grant else set()


# Coming and going.


def test_a_node_that_joins_is_used_in_the_next_round(tmp_path: Path) -> None:
    with world(tmp_path, nodes=1, slots=1, policy="fifo") as w:
        started(w, kind="command", samples=10**6)
        waiting = w.submit(kind="command")
        w.pass_time(3.0)
        assert w.state(waiting) is State.QUEUED
        w.engine.add_node(Node("g0", 2, "cpu"))
        w.round()
        assert w.state(waiting) is State.STARTING
        assert nodes_of(w, waiting) == {"g0"}
        assert told(w, "g0") == ["up"]


def test_a_node_that_was_away_between_two_looks_is_noticed_by_its_incarnation(tmp_path: Path) -> None:
    with world(tmp_path, **CALM) as w:
        job = started(w, samples=10**6, workers={"min": 1, "max": 4})
        w.until(lambda: w.engine.workers_of(job) == {"n0": 2, "n1": 2})
        w.engine.restart_node("n1")
        w.plane.ingest.look_at_nodes()
        assert "n1" not in w.live(job).places
        assert w.plane.wakeup.trigger == "node"
        assert told(w, "n1") == ["up", "lost", "up"]
        w.until(lambda: w.live(job).places == w.engine.workers_of(job) == {"n0": 2, "n1": 2})
        assert w.row(job).attempt == 1


def test_a_command_on_a_node_that_was_away_for_a_moment_starts_over(tmp_path: Path) -> None:
    with world(tmp_path, nodes=1, policy="fifo") as w:
        job = started(w, kind="command", samples=10**5)
        w.engine.restart_node("n0")
        w.until(lambda: w.row(job).attempt == 2)
        w.until_state(job, State.RUNNING)


def test_a_control_plane_notices_what_came_back_while_there_was_none(tmp_path: Path) -> None:
    with world(tmp_path, **CALM) as w:
        w.round()
        w.engine.restart_node("n1")
        w.crash()
        w.round()
        assert told(w, "n1")[-2:] == ["lost", "up"]
        assert told(w, "n0")[-1] == "up"


def test_it_is_known_since_when_a_node_is_lost_also_after_a_restart(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        w.round()
        w.engine.lose_node("n1")
        w.pass_time(5.0)
        lost_s = info(w, "n1").since_s
        assert lost_s == pytest.approx(1000.0)
        w.crash()
        w.pass_time(5.0)
        assert (info(w, "n1").state, info(w, "n1").since_s) == ("lost", lost_s)


def test_a_node_that_is_gone_for_long_vanishes_unless_somebody_drained_it(tmp_path: Path) -> None:
    with world(tmp_path, nodes=4, forget_after_s=100.0) as w:
        w.round()
        w.service.drain(ANN, "n1", True)
        w.engine.say("n2", declared=True)
        w.engine.remove_node("n1")
        for name in ("n2", "n3"):
            w.engine.lose_node(name)
        w.pass_time(50.0, 10.0)
        assert [each.id for each in w.service.nodes()] == ["n0", "n2", "n3", "n1"]
        w.pass_time(100.0, 10.0)
        assert {each.id: each.state for each in w.service.nodes()} == {"n0": "up", "n2": "lost", "n1": "lost"}
        w.crash()
        w.round()
        assert {each.id for each in w.service.nodes()} == {"n0", "n1", "n2"}
        w.engine.add_node(Node("n1", 2, "cpu"))
        w.round()
        assert info(w, "n1").state == "draining", "what people decided outlives the node"
        w.service.drain(ANN, "n1", False)
        w.engine.bring_back("n3")
        w.round()
        assert info(w, "n3").state == "up"


def test_a_node_that_has_left_is_forgotten_soon_and_one_that_broke_is_not(tmp_path: Path) -> None:
    with world(tmp_path, nodes=3) as w:
        w.round()
        w.engine.remove_node("n1")
        w.engine.lose_node("n2")
        w.pass_time(60.0, 10.0)
        assert {each.id: each.state for each in w.service.nodes()} == {"n0": "up", "n1": "lost", "n2": "lost"}
        w.pass_time(120.0, 10.0)
        assert {each.id: each.state for each in w.service.nodes()} == {"n0": "up", "n2": "lost"}
        w.crash()
        w.round()
        assert {each.id for each in w.service.nodes()} == {"n0", "n2"}


def test_a_forgotten_node_is_no_reason_to_wait(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        assert p.cluster.expected() == p.cluster.answering.keys()
        p.engine.lose_node("n1")
        p.cluster.look()
        assert p.cluster.expected() > p.cluster.answering.keys()
        p.clock.now_s += 10**5
        p.cluster.look()
        assert p.cluster.expected() == p.cluster.answering.keys()


# Nodes that take nothing new.


def test_nothing_new_is_placed_on_a_silent_node_and_nobody_is_taken_away(tmp_path: Path) -> None:
    with world(tmp_path, **CALM) as w:
        job = started(w, samples=10**6, workers={"min": 1, "max": 3})
        w.until(lambda: w.workers(job) == 3)
        before = dict(w.live(job).places)
        w.engine.say("n0", suspect=True)
        w.engine.say("n1", suspect=True)
        other = w.submit(samples=10**6, kind="command")
        w.pass_time(20.0)
        assert w.engine.workers_of(job) == before
        assert w.state(other) is State.QUEUED
        assert (info(w, "n0").state, told(w, "n0")[-1]) == ("suspect", "suspect")
        w.engine.say("n0", suspect=False)
        w.engine.say("n1", suspect=False)
        w.until_state(other, State.RUNNING)


def test_a_plan_that_moves_somebody_to_a_silent_node_is_not_followed(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        p.engine.say("n1", suspect=True)
        p.cluster.look()
        assert p.cluster.usable(lambda: {"n1": 1})["n1"].gpus == 1
        assert "n1" not in p.cluster.usable(dict)
        assert not p.cluster.takes_new("n1")


def test_an_unfit_node_gets_nothing_and_says_why(tmp_path: Path) -> None:
    with world(tmp_path, nodes=2, slots=1, policy="fifo") as w:
        w.engine.say("n1", unfit="torch 2.3, the head has 2.4")
        jobs = [w.submit(kind="command", samples=10**5) for _ in range(2)]
        w.pass_time(5.0)
        assert [w.state(job) for job in jobs] == [State.RUNNING, State.QUEUED]
        assert (info(w, "n1").state, info(w, "n1").why) == ("unfit", "torch 2.3, the head has 2.4")
        with pytest.raises(Conflict, match=r"n1 is unfit \(torch 2.3"):
            w.service.move(ANN, jobs[1], "n1")


def test_a_node_that_becomes_unfit_is_left_by_those_who_can(tmp_path: Path) -> None:
    with world(tmp_path, **CALM) as w:
        job = started(w, samples=10**6, workers={"min": 1, "max": 4})
        w.until(lambda: w.workers(job) == 4)
        w.engine.say("n1", unfit="another Elastane")
        w.until(lambda: w.engine.workers_of(job) == {"n0": 2})
        assert w.row(job).attempt == 1


# Nodes that are about to leave.


def test_a_leaving_node_is_empty_before_its_time_without_a_stop(tmp_path: Path) -> None:
    with world(tmp_path, nodes=2, slots=2, **CALM) as w:
        job = started(w, samples=10**6, workers={"min": 1, "max": 2})
        w.until(lambda: w.workers(job) == 2)
        (node,) = nodes_of(w, job) if len(nodes_of(w, job)) == 1 else ("n0",)
        w.engine.say(node, leaving_s=30.0)
        w.round()
        assert (info(w, node).state, info(w, node).until_s) == ("leaving", pytest.approx(w.clock.now_s + 30.0))
        left_s = w.clock.now_s
        w.until(lambda: node not in w.engine.workers_of(job), most_s=20.0)
        assert w.clock.now_s - left_s < 10.0
        w.engine.remove_node(node)
        w.pass_time(5.0)
        assert w.row(job).attempt == 1
        assert {"suspend", "lose"}.isdisjoint(w.causes(job))


def test_a_job_that_is_not_preemptible_leaves_such_a_node_and_no_other(tmp_path: Path) -> None:
    with world(tmp_path, nodes=2, slots=2, **CALM) as w:
        job = started(w, samples=10**6, workers={"min": 2, "max": 2}, preemptible=False)
        w.until(lambda: w.workers(job) == 2)
        (node,) = nodes_of(w, job)
        w.service.drain(ANN, node, True)
        w.pass_time(20.0)
        assert set(nodes_of(w, job)) == {node}, "a node that is drained waits for it"
        w.engine.say(node, leaving_s=30.0)
        w.until(lambda: node not in w.engine.workers_of(job), most_s=20.0)
        w.engine.remove_node(node)
        w.pass_time(5.0)
        assert (w.row(job).attempt, w.workers(job)) == (1, 2)
        assert {"suspend", "lose"}.isdisjoint(w.causes(job))


def test_who_was_put_on_a_leaving_node_is_moved_all_the_same(tmp_path: Path) -> None:
    with world(tmp_path, nodes=2, slots=2, **CALM) as w:
        job = started(w, samples=10**6, workers={"min": 1, "max": 2})
        w.service.move(ANN, job, "n1")
        w.until(lambda: set(w.engine.workers_of(job)) == {"n1"})
        w.engine.say("n1", leaving_s=30.0)
        w.until(lambda: set(w.engine.workers_of(job)) == {"n0"}, most_s=20.0)
        assert w.row(job).attempt == 1


def test_who_would_be_done_after_the_node_is_gone_is_not_left_alone(tmp_path: Path) -> None:
    with world(tmp_path, nodes=2, slots=1, **CALM) as w:
        job = w.live(started(w, samples=2000, workers={"min": 1, "max": 1}))
        w.until(lambda: job.finish.near(job, w.clock.now_s))
        facts, now_s = job.facts(1, ("cpu",)), w.clock.now_s
        assert not left_alone(job, facts, now_s, now_s + 100.0).request.preemptible
        assert left_alone(job, facts, now_s, now_s + 0.5).request.preemptible


def test_how_long_a_node_stays_is_counted_from_when_it_was_said(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        p.engine.say("n1", leaving_s=30.0)
        p.cluster.look()
        said_s = p.clock.now_s
        p.clock.now_s += 10.0
        assert not p.cluster.look(), "it is no news"
        assert p.cluster.leaving() == {"n1": said_s + 30.0}
        p.engine.say("n1", leaving_s=5.0)
        assert p.cluster.look()
        assert p.cluster.leaving() == {"n1": p.clock.now_s + 5.0}


def test_a_look_that_cannot_be_stored_is_made_again(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        p.engine.restart_node("n1")
        kept, p.cluster._store = p.cluster._store, None  # type: ignore[assignment]
        with pytest.raises(AttributeError):
            p.cluster.look()
        p.cluster._store = kept
        assert p.cluster.look().restarted == {"n1"}
        assert not p.cluster.look()


def test_workers_on_a_node_that_came_back_are_not_counted_there(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        job = p.job(Grant.of([("n0", 1), ("n1", 2)]))
        assert job.places == {"n0": 1, "n1": 2}
        p.engine.restart_node("n1")
        look = p.cluster.look()
        assert (look.changed, look.restarted) == (True, {"n1"})


def test_series_count_nodes_by_state(tmp_path: Path) -> None:
    with world(tmp_path, nodes=4) as w:
        w.round()
        w.engine.lose_node("n0")
        w.engine.say("n1", suspect=True)
        w.service.drain(ANN, "n2", True)
        w.round()
        by_state = w.service.gauges()["elastane_nodes_by_state{state}"]
        assert by_state == {
            "lost": 1.0, "suspect": 1.0, "draining": 1.0, "up": 1.0, "leaving": 0.0, "unfit": 0.0,
        }  # fmt: skip


# Disks that not all see.


def test_a_blind_node_waits_until_nobody_saves_where_it_cannot_read(tmp_path: Path) -> None:
    with world(tmp_path, nodes=1, slots=1, **CALM) as w:
        job = started(w, samples=10**6)
        w.engine.add_node(Node("far", 2, "cpu"), blind=True)
        w.round()
        command = w.submit(kind="command", workers=2)
        assert info(w, "far").state == "unfit"
        assert "does not see the folders in which present jobs save" in w.plane.cluster.standing("far").why
        w.pass_time(10.0)
        assert w.state(command) is State.QUEUED  # not refused: the node is used one day
        w.service.cancel(ANN, job)
        w.until(lambda: nodes_of(w, command) == {"far"})
        assert info(w, "far").state == "up"
