"""Pools of a live cluster: nodes come for jobs that wait, and go when nobody needs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elastane.cluster import Node
from elastane.errors import ElastaneError
from elastane.jobs.states import State
from elastane.service.messages import PoolInfo
from elastane.service.protocol import NotFound
from elastane.testing.engines.fake_nodes import FakePool
from service.helpers import ANN, World, started, world

GPU = Node("x", 2, "a100")


def spot(**how: Any) -> dict[str, FakePool]:
    return {"spot": FakePool(GPU, **{"most": 4, "delay_s": 5.0, "price_per_hour": 2.0, **how})}


def pool(w: World) -> PoolInfo:
    return w.service.pools()[0]


def bound(w: World, **bounds: Any) -> PoolInfo:
    asked = {"least": None, "most": None, "idle_s": None, "budget_per_hour": None, **bounds}
    return w.service.set_pool(ANN, "spot", **asked)


def test_from_nothing_to_what_waits_and_back(tmp_path: Path) -> None:
    with world(tmp_path, machines=[], pools=spot(), policy="fifo") as w:
        bound(w, idle_s=20.0)
        job = w.submit(kind="command", workers=3, samples=3000)
        w.pass_time(2.0)
        assert (pool(w).now, pool(w).wanted, w.state(job)) == (0, 2, State.QUEUED)
        w.until_state(job, State.RUNNING, most_s=10.0)
        assert (pool(w).now, pool(w).wanted) == (2, 2)
        assert {info.pool for info in w.service.nodes()} == {"spot"}
        w.until_state(job, State.SUCCEEDED)
        ended_s = w.clock.now_s
        w.until(lambda: pool(w).now == 0, most_s=60.0)
        assert 20.0 <= w.clock.now_s - ended_s <= 30.0
        assert pool(w).wanted == 0
        changes = [
            event.body["wanted"]
            for event in w.service.events(0)
            if event.kind == "pool" and "wanted" in event.body
        ]
        assert changes[0] == 2
        assert changes[-1] == 0
        assert len(changes) <= 4, "it flaps"


def test_machines_that_are_there_are_used_first(tmp_path: Path) -> None:
    with world(tmp_path, machines=[Node("n0", 2, "a100")], pools=spot(), policy="fifo") as w:
        w.submit(kind="command", workers=2)
        w.pass_time(3.0)
        assert pool(w).wanted == 0


def test_a_type_that_no_pool_has_costs_nothing(tmp_path: Path) -> None:
    with world(tmp_path, machines=[Node("n0", 1, "cpu")], pools=spot(), policy="fifo") as w:
        started(w, kind="command", samples=10**5, accelerators=["cpu"])
        w.submit(kind="command", accelerators=["cpu"])
        w.pass_time(5.0)
        assert pool(w).wanted == 0
        with pytest.raises(ElastaneError, match="the cluster has a100, cpu, not tpu"):
            w.submit(accelerators=["tpu"])
        with pytest.raises(ElastaneError, match="ask for at most 8 workers"):
            w.submit(workers=9)


def test_limit_and_budget_are_respected(tmp_path: Path) -> None:
    with world(tmp_path, machines=[], pools=spot(), policy="fifo") as w:
        bound(w, budget_per_hour=5.0)
        for _ in range(4):
            w.submit(kind="command", workers=2, samples=10**6)
        w.pass_time(30.0)
        assert (pool(w).now, pool(w).wanted) == (2, 2)
        bound(w, budget_per_hour=-1.0)
        assert pool(w).budget_per_hour is None
        w.pass_time(30.0)
        assert pool(w).now == 4
        w.submit(kind="command", workers=2)
        w.pass_time(30.0)
        assert pool(w).wanted == 4


def test_a_smaller_limit_drains_without_a_stop_and_never_takes_a_command(tmp_path: Path) -> None:
    with world(tmp_path, machines=[], pools=spot(least=2), interval_s=5.0, min_run_s=0.0) as w:
        w.until(lambda: pool(w).now == 2)
        job = started(w, samples=10**6, workers={"min": 1, "max": 4})
        w.until(lambda: len(w.engine.workers_of(job)) == 2)
        bound(w, least=0, most=1)
        w.until(lambda: pool(w).now == 1, most_s=60.0)
        assert w.row(job).attempt == 1
        assert {"suspend", "lose"}.isdisjoint(w.causes(job))
    with world(tmp_path / "other", machines=[], pools=spot(), policy="fifo") as w:
        command = started(w, kind="command", workers=4, samples=10**5)
        bound(w, most=0)
        w.pass_time(60.0)
        assert (w.state(command), pool(w).now) == (State.RUNNING, 2)


def test_a_node_of_a_pool_that_is_taken_away_is_replaced_while_it_is_needed(tmp_path: Path) -> None:
    with world(tmp_path, machines=[], pools=spot(), interval_s=5.0, min_run_s=0.0) as w:
        job = started(w, samples=10**6, workers={"min": 2, "max": 2})
        (node,) = w.engine.workers_of(job)
        w.engine.say(node, leaving_s=5.0)
        w.pass_time(4.0)
        w.engine.remove_node(node)
        w.until(lambda: bool(w.engine.workers_of(job)) and node not in w.engine.workers_of(job))


def test_bounds_outlive_the_control_plane_and_nonsense_is_refused(tmp_path: Path) -> None:
    with world(tmp_path, machines=[], pools=spot()) as w:
        bound(w, least=1, most=3, idle_s=7.0, budget_per_hour=6.0)
        w.crash()
        now = pool(w)
        assert (now.least, now.most, now.idle_s, now.budget_per_hour) == (1, 3, 7.0, 6.0)
        with pytest.raises(ElastaneError, match="least: 4 nodes at least are more than 3 at most"):
            bound(w, least=4)
        with pytest.raises(ElastaneError, match="budget: 3 nodes at least cost 6 per hour, more than 5"):
            bound(w, least=3, budget_per_hour=5.0)
        with pytest.raises(NotFound, match=r"there is no pool big \(there are spot\)"):
            w.service.set_pool(ANN, "big", 1, None, None, None)
        assert w.service.gauges()["elastane_pool_nodes{pool}"] == {"spot": 0.0}


def test_who_is_on_hold_needs_no_node(tmp_path: Path) -> None:
    with world(tmp_path, machines=[], pools=spot(delay_s=1000.0), policy="fifo") as w:
        job = w.submit(kind="command")
        w.pass_time(2.0)
        assert pool(w).wanted == 1
        w.service.suspend(ANN, job)
        w.pass_time(2.0)
        assert pool(w).wanted == 0


def test_nodes_arrive_one_after_the_other_and_none_is_given_back_meanwhile(tmp_path: Path) -> None:
    with world(tmp_path, machines=[], pools=spot(stock=1), policy="fifo") as w:
        bound(w, idle_s=5.0)
        job = w.submit(kind="command", workers=4)
        w.pass_time(60.0)
        assert (w.state(job), pool(w).now, pool(w).wanted) == (State.QUEUED, 1, 2)
