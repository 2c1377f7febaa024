"""Nodes that differ, live: types reach policies, constraints hold, speeds are learned by type, ends are foreseen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elastane.cluster import Node
from elastane.engines.contract import NodeFacts
from elastane.errors import ElastaneError
from elastane.jobs.states import State
from elastane.policies.view import Info
from elastane.service.cluster_record import Layout
from elastane.service.control.core_sharing import Machines
from elastane.service.control.job_measurements import JobMeasurements
from elastane.service.control.type_sizes import most_workers, slots_by_type
from elastane.service.simulate_history import rehearse
from elastane.train.reports.events import Resized
from service.helpers import ANN, World, started, window, world

MIXED = [Node("a0", 2, "a100", 80.0), Node("a1", 2, "a100", 80.0), Node("t0", 4, "t4", 16.0)]
SPEEDS = {"a100": 4.0, "t4": 1.0}
CALM = {"interval_s": 5.0, "min_run_s": 0.0}


def types_of(w: World, job: str) -> set[str]:
    return {w.engine.nodes()[node].gpu_type for node in w.engine.workers_of(job)}


@pytest.mark.parametrize("policy", ["elastane", "fifo", "sia", "gavel", "srtf", "pollux", "tiresias"])
def test_constraints_on_types_hold_and_no_job_has_two(tmp_path: Path, policy: str) -> None:
    with world(tmp_path, machines=MIXED, speeds=SPEEDS, policy=policy, **CALM) as w:
        wanted = ["a100", "t4", None, "a100"]
        jobs = [
            w.submit(samples=10**6, workers={"min": 1, "max": 4}, **({"accelerators": [kind]} if kind else {}))
            for kind in wanted
        ]
        for _ in range(30):
            w.pass_time(2.0)
            for job, kind in zip(jobs, wanted, strict=True):
                found = types_of(w, job)
                assert len(found) <= 1
                assert kind is None or found <= {kind}
        assert all(w.state(job) is not State.FAILED for job in jobs)
        assert w.state(jobs[1]) is State.RUNNING


def test_a_policy_sees_types_and_the_speeds_that_were_measured_on_each(tmp_path: Path) -> None:
    with world(tmp_path, machines=MIXED, speeds=SPEEDS, **CALM) as w:
        job = started(w, samples=10**6, workers={"min": 1, "max": 2}, accelerators=["a100", "t4"])
        for node in ("a0", "t0"):
            w.service.move(ANN, job, node)
            w.until(lambda node=node: set(w.engine.workers_of(job)) == {node})
            w.pass_time(10.0)
        seen = w.plane.seen_by(w.plane.policy, None, "tick").view
        assert {name: node.gpu_type for name, node in seen.nodes.items()} == {n.id: n.gpu_type for n in MIXED}
        speed = seen.jobs[job].speed
        assert speed is not None
        fast, slow = speed.best_of(1, 1, "a100")[0], speed.best_of(1, 1, "t4")[0]
        assert fast / slow == pytest.approx(4.0, rel=0.1)
        w.crash()
        live = w.live(job)
        again = live.view(live.facts(4, ("a100", "t4")), Info.SPEED).speed
        assert again is not None
        assert again.best_of(1, 1, "t4")[0] == pytest.approx(slow, rel=0.01)


def test_past_jobs_are_remembered_by_the_type_they_ran_on(tmp_path: Path) -> None:
    with world(tmp_path, machines=MIXED, speeds=SPEEDS, **CALM) as w:
        job = started(w, samples=2000, workers=1, accelerators=["t4"])
        w.until_state(job, State.SUCCEEDED)
        ((_, past),) = w.store.past.experiences(0, 10)
        assert set(past["timings"]) == {"t4"}


def test_the_most_that_a_job_may_have_is_what_its_best_type_has() -> None:
    slots = slots_by_type(MIXED)
    assert slots == {"a100": 4, "t4": 4}
    assert most_workers(slots, (), 1.0) == most_workers(slots, ["t4"], 1.0) == 4
    assert most_workers(slots, ["a100"], 2.0) == 2
    assert most_workers(slots, ["tpu"], 1.0) == 0


def test_a_job_that_no_single_type_has_room_for_is_refused(tmp_path: Path) -> None:
    with world(tmp_path, machines=MIXED) as w:
        with pytest.raises(ElastaneError, match="ask for at most 4 workers"):
            w.submit(workers=5)
        with pytest.raises(ElastaneError, match="cluster's 4 slots"):
            w.service.scale(ANN, w.submit(workers={"min": 1, "max": 9}), 5)
        with pytest.raises(ElastaneError, match="node t0 has t4, the job takes a100 only"):
            w.service.move(ANN, w.submit(accelerators=["a100"]), "t0")


def test_ends_are_foreseen_by_the_type_that_a_job_waits_for(tmp_path: Path) -> None:
    with world(tmp_path, machines=MIXED, speeds=SPEEDS, policy="fifo", **CALM) as w:
        first = started(w, samples=2000, workers=1, accelerators=["t4"])
        w.until_state(first, State.SUCCEEDED)
        holder = started(w, samples=40_000, workers={"min": 4, "max": 4}, accelerators=["t4"], kind="rigid")
        w.pass_time(10.0)
        jobs = {kind: w.submit(samples=2000, workers=1, accelerators=[kind]) for kind in ("t4", "a100")}
        w.round()
        w.plane.poke("test")
        w.round()
        held, waits, starts = (w.line(job).eta for job in (holder, jobs["t4"], jobs["a100"]))
        assert held is not None
        assert waits is not None
        assert starts is not None
        assert None not in (held.low_s, waits.low_s, held.high_s, waits.high_s)
        assert waits.high_s > held.high_s, "it waits for the t4s"  # type: ignore[operator]
        assert starts.high_s is None or starts.high_s < held.low_s  # type: ignore[operator]
        assert w.service.why(holder).numbers["slots"] == 4.0


def test_why_counts_only_what_a_job_could_use(tmp_path: Path) -> None:
    with world(tmp_path, machines=MIXED, policy="fifo") as w:
        started(w, kind="command", workers=4, samples=10**6, accelerators=["t4"])
        job = w.submit(kind="command", workers=2, accelerators=["t4"])
        w.pass_time(2.0)
        numbers = w.service.why(job).numbers
        assert (numbers["slots"], numbers["slots_free"]) == (4.0, 0.0)
        assert {line.change for line in w.service.why(job, instead=True).instead} >= {"any accelerator"}


def test_a_curve_is_that_of_the_type_the_job_trains_on(tmp_path: Path) -> None:
    with world(tmp_path, machines=MIXED, speeds=SPEEDS, **CALM) as w:
        job = started(w, samples=10**6, workers={"min": 1, "max": 8}, accelerators=["t4"])
        w.pass_time(20.0)
        curve = w.service.job(job).curve
        assert [point.workers for point in curve] == [1, 2, 3, 4]
        assert any(point.measured for point in curve)


# What was measured, by type.


def test_times_without_a_type_are_those_of_whoever_asks() -> None:
    learned = JobMeasurements("adaptive")
    for n in range(1, 4):
        learned.hear(window(float(n), n / 100))
    model = learned.speed("a100", "t4")
    assert model is not None
    assert set(model.params) == {"a100"}
    assert set(learned.timings("t4")) == {"t4"}


def test_a_window_that_belongs_to_no_single_type_teaches_nothing() -> None:
    learned = JobMeasurements("adaptive")
    for n in range(1, 4):
        learned.hear(window(float(n), n / 100), 1.0, None)
    assert learned.speed("t4") is None
    assert learned.fraction == 0.03


def test_a_profile_from_before_types_had_names_is_read() -> None:
    learned = JobMeasurements("adaptive")
    for n in range(1, 4):
        learned.hear(window(float(n), n / 100), 1.0, "t4")
    stored = json.loads(json.dumps(learned.profile_json()))
    old = {**stored, "table": stored["tables"]["t4"]}
    del old["tables"]
    again = JobMeasurements.restored("adaptive", {}, old)
    ours, theirs = again.speed("t4"), learned.speed("t4")
    assert ours is not None
    assert theirs is not None
    assert ours.params == theirs.params
    again.hear(Resized(9.0, 1, "move", 1, 1, 5, 1.0))
    for n in (10.0, 11.0):
        again.hear(window(n, 0.3, 2, sync_s=0.02), 1.0, "t4")
    assert again.measured_on("t4") == {1, 2}


# Cores of machines.


def test_slots_share_the_cores_of_their_own_machine_only() -> None:
    nodes = {
        "n0": Node("n0", 2, "cpu"),
        "n1": Node("n1", 2, "cpu"),
        "r0": Node("r0", 8, "cpu", cpus=8.0),
        "g0": Node("g0", 4, "a100", cpus=4.0),
    }
    facts = {"n0": NodeFacts(cores=2), "n1": NodeFacts(cores=2), "r0": NodeFacts(address="10.0.0.2")}
    machines = Machines.found(nodes, facts)
    assert machines.total == 10
    busy = machines.busy([({"n0": 2}, 1.0), ({"n1": 2, "r0": 1}, 1.0), ({"g0": 4}, 1.0)])
    assert machines.share(["n0"], busy) == 0.5
    assert machines.share(["r0"], busy) == machines.share(["g0"], busy) == 1.0
    assert machines.share(["n1", "r0"], busy) == 0.5, "who waits for the slowest is as slow"
    assert machines.foreseen(4, all_busy=True) == 0.5
    assert machines.foreseen(4, all_busy=False) == 1.0
    assert Machines().foreseen(100, all_busy=True) == 1.0


def test_what_a_cluster_was_is_stored_with_types_and_cores(tmp_path: Path) -> None:
    with world(tmp_path, machines=[*MIXED, Node("c0", 4, "cpu", cpus=2.0)], speeds=SPEEDS, **CALM) as w:
        job = started(w, samples=3000, workers=1, accelerators=["a100"])
        w.engine.add_node(Node("c1", 4, "cpu"), address="10.0.0.9", cores=8)
        w.until_state(job, State.SUCCEEDED)
        layout = Layout.of(w.store)
        assert {name: node.gpu_type for name, node in layout.nodes.items()} == {
            "a0": "a100", "a1": "a100", "t0": "t4", "c0": "cpu", "c1": "cpu",
        }  # fmt: skip
        assert layout.nodes["a0"].gpu_memory_gb == 80.0
        assert layout.machines.total == 10
        (again,) = rehearse(w.store, w.plane.policy)
        assert again.simulated_s == pytest.approx(again.real_s, rel=0.3)


def test_a_record_of_earlier_versions_is_read(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        with w.store.transaction() as t:
            old = {
                "nodes": {"n0": 2, "n1": 2},
                "accelerator": "cpu",
                "cores": 2,
                "interval_s": None,
                "min_run_s": 1.0,
            }
            t.settings.put("layout", old)
        layout = Layout.of(w.store)
        assert (layout.machines.total, layout.nodes["n1"].gpus, layout.min_run_s) == (2, 2, 1.0)
