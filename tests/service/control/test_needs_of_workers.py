"""What a worker needs is heeded live: by where it is placed, by what is let in, and by when a place counts as free."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from elastane.accelerators import Accelerator, Found
from elastane.cluster import Node
from elastane.errors import ElastaneError
from elastane.jobs.parts import Demand
from elastane.jobs.states import State
from elastane.jobs.unsupported import UNSUPPORTED
from elastane.service.cluster_record import Layout
from elastane.service.control.slots_in_use import SlotsInUse
from elastane.service.machine import divide
from service.control.parts import parts
from service.helpers import ANN, World, started, world

LOTS = {"samples": 10**6}


@pytest.fixture
def four_cores(monkeypatch: pytest.MonkeyPatch) -> list[Node]:
    """Two nodes of a machine with four cores, as ``elastane up --nodes 2 --slots 4`` makes them."""
    monkeypatch.setattr("elastane.service.machine.cores", lambda: 4)
    return list(divide(2, 4, Found()).nodes.values())


def most_at_once(w: World, need: str, amount: object) -> int:
    """How many jobs of one worker with this need run at the same time."""
    jobs = [w.submit(**LOTS, workers=1, resources={need: amount}) for _ in range(9)]
    w.pass_time(20.0)
    return sum(w.state(job) is State.RUNNING for job in jobs)


PLACED = {"gpus": (2, 4), "cpus": (1.0, 4)}
"""Needs that count against what nodes have: an amount, and how many such workers fit into the two nodes."""
TOLD = {"memory": ("8GB", 8.0)}
"""Needs that engines hold workers to: an amount, and what they are told."""


@pytest.mark.parametrize("need", Demand.model_fields)
def test_every_need_makes_a_difference_live_or_is_refused(
    tmp_path: Path, four_cores: list[Node], need: str
) -> None:
    with world(tmp_path, machines=four_cores, policy="fifo") as w:
        if f"resources.{need}" in UNSUPPORTED:
            with pytest.raises(ElastaneError, match=rf"resources\.{need} is not supported yet"):
                w.submit(resources={need: 1})
        elif need in PLACED:
            amount, fit = PLACED[need]
            assert most_at_once(w, need, amount) == fit
        else:
            amount, told = TOLD[need]
            job = started(w, **LOTS, workers=1, resources={need: amount})
            launch = w.live(job).launch
            assert launch is not None
            assert launch.worker_memory_gb == told


@pytest.mark.parametrize("policy", ["elastane", "fifo", "tiresias", "gavel"])
def test_policies_place_no_more_workers_on_a_node_than_its_cores_allow(
    tmp_path: Path, four_cores: list[Node], policy: str
) -> None:
    with world(tmp_path, machines=four_cores, policy=policy, interval_s=5.0, min_run_s=0.0) as w:
        for _ in range(3):
            w.submit(**LOTS, workers={"min": 1, "max": 4}, resources={"cpus": 1})
        for _ in range(30):
            w.pass_time(2.0)
            for node in four_cores:
                assert sum(job.places.get(node.id, 0) for job in w.plane.live.values()) <= 2
        assert sum(w.workers(job) for job in w.plane.live) >= 3


def test_nodes_of_this_machine_have_its_cores_by_their_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elastane.service.machine.cores", lambda: 12)
    assert [node.cpus for node in divide(3, 8, Found()).nodes.values()] == [4.0, 4.0, 4.0]
    found = Found(tuple(Accelerator(f"GPU-{i}", kind, 40.0) for i, kind in enumerate(["A100", "A100", "L4"])))
    assert [(node.gpus, node.cpus) for node in divide(None, None, found).nodes.values()] == [(2, 8.0), (1, 4.0)]


def test_what_the_nodes_have_no_cores_for_is_refused_in_one_line(
    tmp_path: Path, four_cores: list[Node]
) -> None:
    with world(tmp_path, machines=four_cores) as w:
        with pytest.raises(ElastaneError) as whole:
            w.submit(resources={"cpus": 3})
        assert str(whole.value) == (
            "resources.cpus: one worker with 3 cores needs them on one node, and the largest has 2; "
            "ask for at most 2"
        )
        with pytest.raises(ElastaneError) as many:
            w.submit(workers=3, resources={"cpus": 2})
        assert str(many.value) == (
            "workers.min: 3 workers with 2 cores each do not fit into the 4 cores of 2 nodes; "
            "ask for at most 2 workers"
        )


def test_cores_are_free_when_who_had_them_has_left(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        old, new = p.job(), p.job()
        for job in (old, new):
            job.worker = replace(job.worker, cpus=3.0)
        used = SlotsInUse(p.ledger.live.values())
        assert used.cores_by_others(new, "n0") == 0.0
        old.places = {"n0": 2}
        used.note(old)
        assert (used.cores_by_others(new, "n0"), used.cores_by_others(old, "n0")) == (6.0, 0.0)
        old.places = {}
        used.note(old)
        assert used.cores_by_others(new, "n0") == 0.0


def test_a_place_whose_cores_a_command_has_is_not_taken_by_who_is_moved_there(
    tmp_path: Path, four_cores: list[Node]
) -> None:
    with world(tmp_path, machines=four_cores, policy="fifo") as w:
        command = started(w, **LOTS, kind="command", resources={"cpus": 2})
        job = started(w, **LOTS, resources={"cpus": 2}, workers={"min": 1, "max": 2})
        [taken], [own] = w.live(command).places, w.live(job).places
        assert taken != own
        w.service.move(ANN, job, taken)
        w.pass_time(10.0)
        assert w.live(job).places == {own: 1}
        assert "it goes on where it is" in w.line(job).reason


def test_cores_of_nodes_are_stored_for_a_simulation(tmp_path: Path, four_cores: list[Node]) -> None:
    with world(tmp_path, machines=four_cores) as w:
        assert [node.cpus for node in Layout.of(w.store).nodes.values()] == [2.0, 2.0]
