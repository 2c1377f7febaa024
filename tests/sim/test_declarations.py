"""What owners declare changes what policies know, never how jobs train; skew and data come from the trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from elastane.cluster import Cluster, Link, Node
from elastane.errors import ElastaneError
from elastane.models.catalog import catalog, catalog_app
from elastane.models.convergence import PATIENCE_EPOCHS
from elastane.models.estimate import Provenance
from elastane.policies.fifo import Fifo
from elastane.policies.optimus import Optimus
from elastane.policies.registry import make_policy
from elastane.sim.attach_truth import Binding, bind
from elastane.sim.declarations import Declaration, as_declared, job_seed
from elastane.sim.truth.catalog_job import CatalogJob
from elastane.sim.truth.made_up_loss import EPOCHS
from elastane.sim.workloads import Trace, TraceJob, load, parse_workload
from elastane.sim.workloads.formats.tiresias import skew_of
from elastane.simcore.job_run import Arrival
from elastane.simcore.physics import Physics
from elastane.simcore.world import World

CLUSTER = Cluster.uniform(4, 4)


def arrivals(declare: str, workload: str = "pollux:1,jobs=12,hours=1") -> list[Arrival]:
    return bind(parse_workload(workload), CLUSTER, Binding(declare=declare), 0)[0]


def catalog_job(app: str, seed: int | None = 1, scale: float = 1.0) -> CatalogJob:
    source = catalog_app(app)
    return CatalogJob(source, source.limits(("t4",)), scale, loss_seed=seed)


def reports(job: CatalogJob, count: int = 50) -> list[tuple[float, float]]:
    work = [job.total_work * (i + 1) / 50 for i in range(count)]
    return [(done, loss) for done in work if (loss := job.loss(done)) is not None]


# ---- what is declared -------------------------------------------------------------------------------------


def test_epochs_are_the_exact_work_and_stay_the_default() -> None:
    assert Binding().declare == "epochs"
    for job in arrivals("epochs"):
        assert job.declared_work == job.behaviour.total_work
        assert job.declared_s is not None
        assert job.behaviour.loss(job.behaviour.total_work) is None


@pytest.mark.parametrize("workload", ["pollux:1,jobs=12,hours=1", "optimus:1,jobs=12"])
def test_loss_declares_a_rule_in_place_of_work(workload: str) -> None:
    for job in arrivals("loss", workload):
        assert job.declared_work is None
        assert job.declared_s is None
        assert job.stop is not None
        assert job.behaviour.loss(job.behaviour.total_work) is not None


@pytest.mark.parametrize("workload", ["pollux:1,jobs=12,hours=1", "optimus:1,jobs=12"])
def test_nothing_declares_nothing(workload: str) -> None:
    for job in arrivals("nothing", workload):
        assert (job.declared_work, job.declared_s, job.stop) == (None, None, None)


def test_owners_may_be_wrong_about_the_length_and_the_truth_stays() -> None:
    trace = parse_workload("pollux:1,jobs=60,hours=1,realistic")
    cluster = Cluster.uniform(16, 4)
    exact, _ = bind(trace, cluster, Binding(), 0)
    wrong, notes = bind(trace, cluster, Binding(declare_error=0.4), 0)
    assert (
        wrong == bind(trace, cluster, Binding(declare_error=0.4), 7)[0]
    )  # a matter of the job, not of the run
    factors = []
    for told, true in zip(wrong, exact, strict=True):
        assert told.behaviour == true.behaviour
        assert told.declared_work is not None
        assert told.declared_s == pytest.approx(true.declared_s * told.declared_work / true.declared_work)
        factors.append(told.declared_work / true.declared_work)
    assert 0.6 <= min(factors) < 0.75  # 60 uniform draws between 0.6 and 1.4
    assert 1.25 < max(factors) <= 1.4
    assert np.mean(factors) == pytest.approx(1.0, abs=0.1)
    assert notes[-1] == "owners declared work and run time of their jobs, wrong by up to 40 % either way"


def test_a_misspelt_declaration_is_refused_and_every_run_says_what_was_declared() -> None:
    trace = parse_workload("pollux:1,jobs=2,hours=1")
    with pytest.raises(ElastaneError, match=r"unknown --declare 'epoch'.*did you mean 'epochs'"):
        bind(trace, CLUSTER, Binding(declare="epoch"), 0)
    for member in Declaration:
        assert member.note() in bind(trace, CLUSTER, Binding(declare=member.value), 0)[1]


@pytest.mark.parametrize("workload", ["pollux:1,jobs=12,hours=1", "optimus:1,jobs=12"])
def test_the_truth_is_the_same_whatever_is_declared(workload: str) -> None:
    ends = []
    for declare in ("epochs", "loss", "nothing"):
        world = World(CLUSTER, Fifo(), [a for a in arrivals(declare, workload) if a.request.workers <= 16])
        world.run()
        ends.append({i: run.finish_s for i, run in world.jobs.items()})
    assert ends[0] == ends[1] == ends[2]


@pytest.mark.parametrize("declare", ["loss", "nothing"])
@pytest.mark.parametrize("policy", ["optimus", "easy", "srtf", "pollux", "tiresias"])
def test_policies_cope_without_declared_work(policy: str, declare: str) -> None:
    jobs = [a for a in arrivals(declare, "pollux:2,jobs=8,hours=1") if a.request.workers <= 16]
    world = World(CLUSTER, make_policy(policy), jobs, Physics(interval_s=300.0))
    world.run()
    assert all(run.finish_s is not None for run in world.jobs.values())


def test_a_running_job_is_forecast_from_its_losses() -> None:
    known = next(a for a in arrivals("epochs") if a.behaviour.app == "cifar10" and a.request.workers <= 16)
    job = as_declared(replace(known, submit_s=0.0), Declaration.LOSS)
    world = World(CLUSTER, Optimus(), [job], Physics(interval_s=60.0))
    world.run(until_s=60.0)
    assert world.view().jobs[job.id].remaining is None  # nothing reported yet
    run = world.jobs[job.id]
    while run.done < 0.75 * job.behaviour.total_work:
        world.run(until_s=world.now_s + 60.0)
    left = world.view().jobs[job.id].remaining
    assert left is not None
    assert left.source is Provenance.FITTED
    assert run.done + left.mean == pytest.approx(job.behaviour.total_work, rel=0.15)


# ---- the made-up curves -----------------------------------------------------------------------------------


@pytest.mark.parametrize("app", sorted(catalog()))
@pytest.mark.parametrize("scale", [1.0, 7.5])
def test_the_rule_ends_where_the_work_does(app: str, scale: float) -> None:
    job = catalog_job(app, scale=scale)
    assert job.stop.epoch_work * EPOCHS == pytest.approx(job.total_work)
    assert job.stop.patience == PATIENCE_EPOCHS
    end = job.stop.expected_end(reports(job, 40))
    assert end is not None
    assert end.mean == pytest.approx(job.total_work, rel=0.1)


@pytest.mark.parametrize("app", sorted(catalog()))
def test_forecasts_get_better_with_the_curve(app: str) -> None:
    errors = {20: [], 45: []}  # type: dict[int, list[float]]
    for seed in range(12):
        job = catalog_job(app, seed)
        for seen, found in errors.items():
            end = job.stop.expected_end(reports(job, seen))
            if end is not None:
                found.append(abs(end.mean / job.total_work - 1.0))
    assert len(errors[45]) >= 10
    assert np.mean(errors[45]) < min(0.05, float(np.mean(errors[20] or [1.0])))


def test_noise_belongs_to_the_job() -> None:
    assert reports(catalog_job("bert", 1)) == reports(catalog_job("bert", 1))
    assert reports(catalog_job("bert", 1)) != reports(catalog_job("bert", 2))
    assert reports(catalog_job("bert", None)) == []
    assert catalog_job("bert").loss(0.0) is None
    assert job_seed("a", 1.0) != job_seed("a", 2.0)


# ---- skew -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "skew"),
    [("vgg16", 0.74), ("VGG19", 0.74), ("alexnet", 0.74), ("resnet50", 0.11), ("inception3", 0.11)],
)
def test_known_models_have_a_skew(name: str, skew: float) -> None:
    assert skew_of(name) == skew
    assert skew_of("transformer") is None
    assert skew_of(None) is None


def test_the_skew_of_a_tiresias_trace_reaches_the_policy(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    header = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval"
    rows = ["1,4,100,1000,vgg16,600,0", "2,4,100,1000,resnet50,600,0", "3,1,100,1000,gan,600,0"]
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    jobs, _ = bind(load(path), CLUSTER, Binding(), 0)
    world = World(CLUSTER, make_policy("tiresias"), jobs)
    world.run(until_s=1.0)
    assert {i: job.skew for i, job in world.view().jobs.items()} == {"1": 0.74, "2": 0.11, "3": None}


# ---- data -------------------------------------------------------------------------------------------------

ZONES = Cluster.of(
    [Node("a", 4, zone="east"), Node("b", 4, zone="west")],
    {frozenset(("east", "west")): Link(bandwidth_gbps=8.0, latency_s=0.5)},
)


@pytest.mark.parametrize(
    ("gpus", "zone", "gigabytes", "waits_s"),
    [
        (4, "east", 100.0, 0.0),  # node a comes first
        (4, "west", 100.0, 100.5),
        (8, "west", 100.0, 100.5),  # one of its two zones is far
        (8, "east", 100.0, 100.5),
        (8, "east", 0.0, 0.0),
        (4, "", 100.0, 0.0),  # no link is known, so it costs nothing
    ],
)
def test_data_travel_before_the_first_start(gpus: int, zone: str, gigabytes: float, waits_s: float) -> None:
    row = TraceJob("j", 0.0, gpus=gpus, app="cifar10", data_zone=zone, data_gb=gigabytes)
    jobs, _ = bind(Trace((row,), "test"), ZONES, Binding(), 0)
    world = World(ZONES, Fifo(), [replace(job, staging_s=7.0) for job in jobs], Physics(restart_s=10.0))
    world.run()
    assert sum(span.restarting_s for span in world.jobs["j"].spans) == pytest.approx(17.0 + waits_s)
