"""Profiles measured per accelerator type as truth: each type has its own times, pipelines train in whole replicas."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from elastane.cluster import Batch, Cluster, Grant
from elastane.errors import ElastaneError
from elastane.policies.contract import Needs
from elastane.policies.fifo import Fifo
from elastane.policies.view import Info, Request
from elastane.sim.run import simulate
from elastane.sim.spec import RunSpec
from elastane.sim.truth.measured_types import measured_types
from elastane.sim.truth.pipelined import PipelinedApp
from elastane.sim.truth.typed_job import TypedMeasuredJob
from elastane.simcore.agents import Agents
from elastane.simcore.job_run import Arrival, JobRun
from elastane.simcore.physics import Physics
from elastane.simcore.world import World

SPEEDS = {"slow": 1.0, "t4": 0.5}
"""Seconds per pass on each type, in those of the slowest."""


def write_typed(root: Path, app: str = "toy") -> Path:
    """An application in Sia's layout: twice as fast on T4 (its files say ``aws``), with four times the memory there."""
    directory = root / app
    directory.mkdir(parents=True)
    for kind, factor in SPEEDS.items():
        name = {"t4": "aws"}.get(kind, kind)
        sizes = (8, 16, 32, 64, 128) if kind == "t4" else (8, 16, 32)
        rows = ["local_bsz,step_time,sync_time,placement"]
        for shape in ("1", "2", "4", "11", "22", "44"):
            sync = 0.0 if shape == "1" else 0.02 * len(shape)
            rows += [f"{b},{factor * (0.05 + 0.002 * b) + sync},{sync},{shape}" for b in sizes]
        (directory / f"placements-{name}.csv").write_text("\n".join(rows) + "\n")
        rows = ["local_bsz,step_time,sync_time,num_nodes,num_replicas"]
        rows += [f"{b},{factor * (0.05 + 0.002 * b) + 0.2},0.2,{n},{n * 4}" for n in (3, 4) for b in sizes]
        (directory / f"scalability-{name}.csv").write_text("\n".join(rows) + "\n")
    write_validation(directory)
    return directory


def write_validation(directory: Path, sqr: float = 1.0) -> None:
    for batch in (32, 64, 128, 256):
        gain = (1.0 + 500 / 32) / (1.0 + 500 / batch)
        rows = ["progress,iteration,metric,grad_sqr,grad_var"]
        rows += [f"{100 * e},{round(100 * e / gain)},0.5,{sqr},{sqr * 500 / 32}" for e in range(1, 4)]
        (directory / f"validation-{batch}.csv").write_text("\n".join(rows) + "\n")


def write_pipeline(root: Path) -> Path:
    """Replicas of two GPUs on ``slow``, of four on ``t4``; half a second a stage there."""
    directory = root / "pipe"
    directory.mkdir(parents=True)
    for name, width, forward in (("slow", 2, 0.1), ("aws", 4, 0.5)):
        rows = ["local_bsz,step_time,sync_time,placement"]
        rows += [f"{b},{forward * b},{0.2 * r},{r * width}" for r in (1, 2) for b in (1, 2)]
        (directory / f"placements-{name}.csv").write_text("\n".join(rows) + "\n")
    write_validation(directory, sqr=1e14)
    return directory


@pytest.fixture
def toy(tmp_path: Path) -> TypedMeasuredJob:
    types = measured_types(write_typed(tmp_path), ("slow", "t4", "other"))
    return TypedMeasuredJob.of(types, types.limits())


def test_every_type_has_the_times_that_were_measured_on_it(toy: TypedMeasuredJob) -> None:
    batch, two = Batch(16, 0), Grant.of([("n", 2)])
    slow, fast = (toy.pace(two, kind, batch, 0.0) for kind in ("slow", "t4"))
    assert slow.step_s == pytest.approx(0.082 + 0.02)
    assert fast.step_s == pytest.approx(0.041 + 0.02)
    assert slow.efficiency == fast.efficiency
    assert toy.pace(two, "other", batch, 0.0).rate == 0.0


def test_memory_differs_from_type_to_type(toy: TypedMeasuredJob) -> None:
    assert toy.limits.per_gpu_max == toy.limits.on("slow").per_gpu_max == 32
    assert toy.limits.on("t4").per_gpu_max == 128
    _, speed = toy.oracle(0.0, None)
    best = speed.best_batch(1, 1, "t4")
    assert best is not None
    assert speed.rates(np.array([1]), np.array([2]), "t4") > speed.rates(np.array([1]), np.array([2]), "slow")


def test_short_runs_measure_one_gpu_of_each_type(toy: TypedMeasuredJob) -> None:
    runs = toy.profile(10)
    assert {run.gpu_type for run in runs} == {"slow", "t4"}
    assert all(run.workers == 1 for run in runs)
    assert max(run.per_gpu for run in runs if run.gpu_type == "t4") == 128
    one = next(run for run in runs if (run.gpu_type, run.per_gpu) == ("slow", 8))
    assert one.step_s == pytest.approx(0.066)


def test_a_pipeline_trains_in_whole_replicas(tmp_path: Path) -> None:
    """Two stages and 48 micro-batches of 0.1 s: 3 · (2 − 1 + 48) · 0.1 s, and 0.4 s between two replicas."""
    app = PipelinedApp(write_pipeline(tmp_path), "slow")
    assert app.times_s((2,), 24) == pytest.approx((14.7, 0.0))
    assert app.times_s((4,), 24) == pytest.approx((15.1, 0.4))
    # Three GPUs hold one replica; it works off the samples of the third as well.
    assert app.times_s((3,), 16) == pytest.approx((14.7, 0.0))
    assert app.times_s((1,), 48)[0] == np.inf


def test_a_pipeline_asks_for_a_replica_of_the_widest_type(tmp_path: Path) -> None:
    types = measured_types(write_pipeline(tmp_path), ("slow", "t4"))
    assert [types.width_on(kind) for kind in types.types] == [2, 4]
    assert types.width == 4
    job = TypedMeasuredJob.of(types, types.limits())
    assert {(run.gpu_type, run.workers) for run in job.profile(3)} == {("slow", 2), ("t4", 4)}


def test_types_that_were_not_measured_are_named(tmp_path: Path) -> None:
    with pytest.raises(ElastaneError, match=r"no profiles on h100 \(measured: aws, slow\)"):
        measured_types(write_typed(tmp_path), ("h100",))


@pytest.mark.parametrize("policy", ["sia", "pollux", "elastane", "fifo"])
def test_a_mixed_cluster_is_simulated_with_profiles_of_each_type(tmp_path: Path, policy: str) -> None:
    write_typed(tmp_path / "profiles")
    write_pipeline(tmp_path / "profiles")
    rows = ["name,time,application,num_replicas,batch_size"]
    rows += [f"toy-{i},{10 * i},toy,{1 + i % 3},{64 * (1 + i % 3)}" for i in range(6)] + ["pipe-6,70,pipe,4,64"]
    (tmp_path / "workload.csv").write_text("\n".join(rows) + "\n")
    result = simulate(
        RunSpec(
            str(tmp_path / "workload.csv"),
            policy,
            cluster="2x4:slow,1x4:t4,1x2:other",
            profiles=str(tmp_path / "profiles"),
            compat="sia",
        )
    )
    assert len(result.jobs) == 7
    assert all(job.finish_s is not None for job in result.jobs)


def test_a_policy_may_have_types_taken_for_one(tmp_path: Path) -> None:
    """Published baselines do not tell types apart: their jobs learn one model from runs on all of them."""
    types = measured_types(write_typed(tmp_path), ("slow", "t4"))
    behaviour = TypedMeasuredJob.of(types, types.limits())
    known = {}
    for apart in (True, False):
        agents = Agents(Needs(info=Info.SPEED, rebatch=True, types_apart=apart), Physics(), 0)
        run = JobRun(Arrival("j", 0.0, behaviour, Request(1, 1, 4)), None, 30.0, 0.0)
        run.learner = agents.learner(run.arrival)
        for kind in ("slow", "t4"):
            run.gpu_type, run.batch = kind, Batch(16, 0)
            run.hold(Grant.of([("n", 1)]))
            agents.measure(run, behaviour.pace(Grant.of([("n", 1)]), kind, run.batch, 0.0))
        agents.catch_up([run])
        model = run.learner.model()
        assert model is not None
        known[apart] = set(model.params)
    assert known == {True: {"slow", "t4"}, False: {""}}


@pytest.mark.parametrize("asks", [True, False])
def test_only_who_asks_for_short_runs_knows_types_before_the_start_and_pays(tmp_path: Path, asks: bool) -> None:
    types = measured_types(write_typed(tmp_path), ("slow", "t4"))
    behaviour = TypedMeasuredJob.of(types, types.limits())
    arrival = Arrival(
        "j", 0.0, behaviour, Request(1, 1, 1), profile=behaviour.profile(5), profile_s=20.0, restart_s=30.0
    )

    class Asking(Fifo):
        needs = replace(Fifo.needs, info=Info.SPEED, rebatch=True, profile=asks)

    seen: list = []
    world = World(
        Cluster.uniform(1, 1),
        Asking(),
        [arrival],
        Physics(),
        on_decision=lambda made: seen.append(made.view.jobs["j"].speed),
    )
    world.run(1.0)
    assert (seen[0] is not None and set(seen[0].params) == {"slow", "t4"}) == asks
    assert world.jobs["j"].restart_left_s == pytest.approx((20.0 if asks else 0.0) + 30.0 - 1.0)
