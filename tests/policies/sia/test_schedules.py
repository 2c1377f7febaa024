"""Sia on small clusters: what jobs may be given, what is assumed of other types, and where they stand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from elastane.cluster import Cluster, Grant, Node
from elastane.jobs.kinds import Kind
from elastane.models.goodput import BatchLimits, GoodputModel
from elastane.models.throughput import ThroughputParams
from elastane.policies.allocation.eviction import Configuration, place
from elastane.policies.options import OptionError
from elastane.policies.registry import make_policy
from elastane.policies.sia import Sia
from elastane.policies.sia.configurations import Machines, valid_configurations, virtual_nodes
from elastane.policies.sia.goodputs import Row, goodputs
from elastane.policies.sia.rows import row_of
from elastane.policies.view import ELASTIC, Facts, JobState, JobView, Ledger, Request, View
from elastane.scheduling.abilities_by_kind import ABILITIES

LIMITS = BatchLimits(initial=64, maximum=64 * 64, per_gpu_min=8, per_gpu_max=64)
LINEAR = ThroughputParams(0.0, 0.01, 1e-12, 0.0, 1e-12, 0.0, 1.0)
"""A pass takes 10 ms a sample, and synchronising nothing."""


def model(seen: int = 1, **params: ThroughputParams) -> GoodputModel:
    return GoodputModel(dict(params), 1e9, LIMITS, seen, profiled=dict.fromkeys(params, seen))


def job(name: str, grant: Grant | None = None, speed: GoodputModel | None = None, **changes) -> JobView:
    known = {"request": Request(1, 1, 64), "abilities": ELASTIC, "restart_s": 30.0, **changes}
    if grant:
        known.setdefault("ledger", Ledger(first_start_s=0.0, last_change_s=0.0))
    state = JobState.RUNNING if grant else JobState.PENDING
    return JobView(
        name, 0.0, grant=grant, state=state, facts=Facts(speed=speed), visible=Sia.needs.info, **known
    )


def view(cluster: Cluster, *jobs: JobView, now_s: float = 6000.0) -> View:
    return View(now_s, {each.id: each for each in jobs}, cluster.nodes, visible=Sia.needs.info)


def test_configurations_are_powers_of_two_in_a_node_and_then_whole_nodes() -> None:
    found = valid_configurations("t4", (4, 4, 4))
    assert [(each.nodes, each.gpus) for each in found] == [(1, 1), (1, 2), (1, 4), (2, 8), (3, 12)]
    assert virtual_nodes(6) == [4, 2]
    odd = valid_configurations("t4", (6, 6))
    assert [(each.nodes, each.gpus) for each in odd] == [(1, 1), (1, 2), (1, 4), (2, 8)]


def test_a_job_may_double_but_not_quadruple() -> None:
    """SIA-5: from 4 GPUs to 8 in a round, not to 16; a new job begins with one."""
    cluster = Cluster.uniform(4, 8)
    running = job("r", Grant.of([("n000", 4)]), model(4, t4=LINEAR))
    seen = view(cluster, running, job("new"))
    machines = Machines.of(seen)
    row = row_of(running, seen, machines)
    assert row is not None
    assert [each.gpus for each in row.choices] == [1, 2, 4, 8]
    fresh = row_of(seen.jobs["new"], seen, machines)
    assert fresh is not None
    assert [each.gpus for each in fresh.choices] == [1]
    assert Sia().decide(seen).intent.grants["r"].workers == 8


def test_a_job_that_is_coming_up_is_left_alone() -> None:
    cluster = Cluster.uniform(2, 8)
    young = job(
        "y",
        Grant.of([("n000", 1)]),
        model(1, t4=LINEAR),
        ledger=Ledger(first_start_s=0.0, last_change_s=5990.0),
    )
    assert Sia().decide(view(cluster, young)).intent.grants["y"] == young.grant
    later = view(cluster, young, now_s=6021.0)
    assert Sia().decide(later).intent.grants["y"].workers == 2


def test_speed_is_carried_over_from_a_type_that_is_known_better() -> None:
    """SIA-4: 10 samples/s on one GPU of A, 32 on four, 20 on one of B → 64 on four of B, until B is known itself."""
    # A: a pass of 64 samples takes 6.4 s alone and 8 s with three others (step 64·4/32), of which 1.6 s synchronise.
    a = ThroughputParams(0.0, 0.1, 0.0, 0.0, 0.8, 0.4, 1.0)
    b = replace_beta(LINEAR, 0.05)
    limits = replace(LIMITS, initial=64, per_gpu_min=64, per_gpu_max=64, maximum=256)
    known = GoodputModel({"a": a, "b": b}, np.inf, limits, 4, profiled={"a": 4, "b": 1})
    four = tuple(Configuration(kind, gpus) for kind in ("a", "b") for gpus in (1, 4))
    table = goodputs([Row(job("j", speed=known), four)])[0]
    assert table == pytest.approx([10.0, 32.0, 20.0, 64.0], rel=1e-6)
    own = replace(known, profiled={"a": 4, "b": 4})
    assert goodputs([Row(job("j", speed=own), four)])[0] == pytest.approx([10.0, 32.0, 20.0, 80.0], rel=1e-6)


def replace_beta(theta: ThroughputParams, beta: float) -> ThroughputParams:
    return theta._replace(beta_c=beta)


def test_a_job_of_which_nothing_is_known_is_assumed_to_scale() -> None:
    choices = tuple(Configuration("t4", gpus) for gpus in (1, 2, 4))
    assert goodputs([Row(job("j"), choices)])[0].tolist() == [1.0, 2.0, 4.0]


def test_rigid_jobs_choose_a_type_and_resizable_ones_keep_their_batch() -> None:
    cluster = Cluster.of([Node("a", 4, "a100"), Node("t", 4, "t4")])
    rigid = job("r", abilities=ABILITIES[Kind.RIGID], request=Request(3, 1, 3))
    seen = view(cluster, rigid)
    row = row_of(rigid, seen, Machines.of(seen))
    assert row is not None
    assert [(each.gpu_type, each.gpus) for each in row.choices] == [("a100", 3), ("t4", 3)]
    fast, slow = replace_beta(LINEAR, 0.001), LINEAR
    fixed = replace(model(3, a100=fast, t4=slow), limits=replace(LIMITS, fixed=96))
    plan = Sia().decide(
        view(cluster, job("r", speed=fixed, abilities=ABILITIES[Kind.RIGID], request=Request(3, 1, 3)))
    )
    assert plan.intent.grants["r"] == Grant.of([("a", 3)])


def test_a_job_that_cannot_be_stopped_keeps_its_grant() -> None:
    stays = job("s", Grant.of([("n000", 1)]), model(4, t4=LINEAR), request=Request(1, 1, 8, preemptible=False))
    plan = Sia().decide(view(Cluster.uniform(1, 4), stays, job("o")))
    assert plan.intent.grants["s"] == stays.grant


def test_the_fewest_gpus_are_evicted_where_fragments_are_in_the_way() -> None:
    # Four GPUs are free, two on each node: the smaller of the two jobs moves, and four stand on one node.
    here, there = job("h", Grant.of([("n000", 2)])), job("t", Grant.of([("n001", 1)]))
    one = job("o", Grant.of([("n001", 1)]))
    seen = view(Cluster.uniform(2, 4), here, there, one, job("new"))
    chosen = {"h": 2, "t": 1, "o": 1, "new": 4}
    wanted = {name: Configuration("t4", gpus) for name, gpus in chosen.items()}
    reasons: dict[str, str] = {}
    grants = place(seen, wanted, (), reasons)
    assert not reasons
    assert sorted(grants) == sorted(wanted)
    assert grants["new"].shape == (4,)
    assert [name for name in ("h", "t", "o") if grants[name] != seen.jobs[name].grant] in (["h"], ["t", "o"])
    assert "new" not in place(seen, wanted, ("h", "t", "o"), reasons)
    assert "new" in reasons


@pytest.mark.parametrize("wrong", ["sia(p=0)", "sia(penalty=-1)", "sia(gap=1)"])
def test_impossible_parameters_are_refused(wrong: str) -> None:
    with pytest.raises(OptionError, match="sia:"):
        make_policy(wrong)
