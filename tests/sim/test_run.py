"""Whole simulations: binding, physics, determinism, cache and parallel runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from elastane.errors import ElastaneError
from elastane.models.catalog import catalog, catalog_app
from elastane.policies.registry import make_policy
from elastane.sim.attach_truth import app_by_gpu_hours, bind
from elastane.sim.cache import cache_directory, cache_key, load_result, save_result
from elastane.sim.metrics import summarise
from elastane.sim.report import to_json, without_timings
from elastane.sim.run import simulate
from elastane.sim.run_many import simulate_all
from elastane.sim.spec import RunSpec, parse_cluster
from elastane.sim.workloads.trace import Trace, TraceJob
from elastane.simcore.physics import Physics
from elastane.simcore.world import World

SMALL = RunSpec("pollux:1,jobs=12", "tiresias", cluster="4x4:t4")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("policy", ["fifo", "tiresias", "optimus", "optimus-oracle", "pollux", "srtf"])
def test_every_policy_finishes_a_small_workload_deterministically(policy: str) -> None:
    spec = replace(SMALL, policy=policy)
    first, second = simulate(spec), simulate(spec)
    assert all(job.finish_s is not None for job in first.jobs)
    documents = [json.dumps(without_timings(to_json([r])), sort_keys=True) for r in (first, second)]
    assert documents[0] == documents[1]


def test_service_equals_the_integral_of_the_stretches() -> None:
    for job in simulate(replace(SMALL, policy="pollux")).jobs:
        held = sum((s.end_s - s.start_s) * s.gpus for s in job.stretches)
        assert held == pytest.approx(job.service_gpu_s, rel=1e-6)


def test_gpus_are_never_oversubscribed() -> None:
    result = simulate(replace(SMALL, policy="pollux"))
    edges = sorted((t, change) for j in result.jobs for s in j.stretches for t, change in _edges(s))
    used = peak = 0
    for _, change in edges:
        used += change
        peak = max(peak, used)
    assert peak <= result.total_gpus


def _edges(stretch) -> list[tuple[float, int]]:  # type: ignore[no-untyped-def]
    return [(stretch.start_s, stretch.gpus), (stretch.end_s, -stretch.gpus)]


def test_restarts_cost_time() -> None:
    free = summarise(simulate(replace(SMALL, policy="pollux", physics=Physics(restart_s=0.0))))
    dear = summarise(simulate(replace(SMALL, policy="pollux", physics=Physics(restart_s=120.0))))
    assert free.mean_jct_s is not None
    assert dear.mean_jct_s is not None
    assert dear.mean_jct_s > free.mean_jct_s


def test_observation_noise_and_failures_still_finish() -> None:
    spec = replace(
        SMALL, policy="pollux", physics=Physics(observation_noise=0.1), failures_per_1000_node_days=5000.0
    )
    assert all(job.finish_s for job in simulate(spec).jobs)


def test_rigid_jobs_keep_their_size() -> None:
    result = simulate(replace(SMALL, policy="pollux", rigid=1.0))
    assert {s.gpus for job in result.jobs for s in job.stretches if s.gpus != job.requested_gpus} == set()


def test_measured_profiles_replay_in_both_physics(profiles: Path, tmp_path: Path) -> None:
    trace = tmp_path / "workload.csv"
    trace.write_text("name,time,application,num_replicas,batch_size\na,10,toy,2,64\nb,20,toy,4,128\n")
    spec = RunSpec(str(trace), "pollux", cluster="2x4:t4", profiles=str(profiles))
    published = simulate(replace(spec, compat="osdi21", physics=Physics(interval_s=60.0)))
    corrected = simulate(spec)
    for result in (published, corrected):
        assert all(job.finish_s for job in result.jobs)
    assert all(float(job.start_s or 0) % 60 == 0 for job in published.jobs)


def test_a_mixed_cluster_never_mixes_types_within_a_job() -> None:
    result = simulate(replace(SMALL, policy="tiresias", cluster="2x4:t4,1x8:a100", skip_bad=True))
    assert any("wider than the cluster" in note for note in result.notes)
    assert all(job.finish_s for job in result.jobs)


def test_work_is_scaled_to_the_traces_duration() -> None:
    cluster = parse_cluster("4x4:t4")
    row = TraceJob("a", 0.0, gpus=4, duration_s=5000.0)
    arrivals, _ = bind(Trace((row,), "test"), cluster, SMALL.binding(), 0)
    world = World(cluster, make_policy("fifo"), arrivals, Physics(restart_s=0.0))
    world.run()
    assert world.jobs["a"].finish_s == pytest.approx(5000.0, rel=1e-6)


def test_jobs_wider_than_the_cluster_are_an_error_or_counted() -> None:
    cluster = parse_cluster("1x4:t4")
    trace = Trace(
        (TraceJob("wide", 0.0, gpus=8, duration_s=60.0), TraceJob("ok", 0.0, duration_s=60.0)), "test"
    )
    with pytest.raises(ElastaneError, match="job wide asks for 8 GPUs, the cluster has 4 of one kind"):
        bind(trace, cluster, SMALL.binding(), 0)
    arrivals, notes = bind(trace, cluster, replace(SMALL, skip_bad=True).binding(), 0)
    assert [a.id for a in arrivals] == ["ok"]
    assert "left out: 1" in notes[0]


def test_applications_by_gpu_hours() -> None:
    assert {app_by_gpu_hours(0.5, coin) for coin in (0.1, 0.9)} == {"cifar10", "ncf"}
    assert {app_by_gpu_hours(5, coin) for coin in (0.1, 0.9)} == {"deepspeech2", "bert"}
    assert app_by_gpu_hours(50, 0.5) == "yolov3"
    assert app_by_gpu_hours(500, 0.5) == "imagenet"


def test_cache_returns_the_same_result_and_survives_damage() -> None:
    result = simulate(SMALL)
    assert load_result(SMALL) is None
    save_result(SMALL, result)
    assert load_result(SMALL) == result
    (cache_directory() / f"{cache_key(SMALL)}.json.gz").write_bytes(b"not gzip")
    assert load_result(SMALL) is None


def test_cache_key_depends_on_file_contents(tmp_path: Path) -> None:
    trace = tmp_path / "w.csv"
    trace.write_text("name,time,application,num_replicas,batch_size\na,1,cifar10,1,128\n")
    before = cache_key(RunSpec(str(trace), "fifo"))
    other = tmp_path / "other.csv"
    other.write_text("name,time,application,num_replicas,batch_size\na,2,cifar10,1,128\n")
    assert cache_key(RunSpec(str(other), "fifo")) != before
    assert cache_key(RunSpec(str(trace), "tiresias")) != before


def test_parallel_and_serial_runs_agree_and_report_progress() -> None:
    specs = [SMALL, replace(SMALL, policy="fifo")]
    seen: set[int] = set()
    parallel = simulate_all(specs, 2, use_cache=False, on_progress=lambda i, done, total: seen.add(i))
    serial = simulate_all(specs, 1, use_cache=True)
    again = simulate_all(specs, 1, use_cache=True)
    assert [r.jobs for r in parallel] == [r.jobs for r in serial] == [r.jobs for r in again]
    assert seen == {0, 1}


def test_mistakes_in_the_inputs_are_found_before_anything_runs() -> None:
    with pytest.raises(ElastaneError, match="no accelerator 'h100'"):
        simulate_all([replace(SMALL, cluster="4x4:h100")], 1, use_cache=False)


def test_errors_in_a_child_process_reach_the_user() -> None:
    specs = [replace(SMALL, policy="tiresias(thresholds=x)"), replace(SMALL, policy="fifo")]
    with pytest.raises(ElastaneError, match="thresholds are numbers"):
        simulate_all(specs, 2, use_cache=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"compat": "osdi22"}, "did you mean 'osdi21'"),
        ({"rigid": 2.0}, "--rigid is a fraction"),
        ({"physics": Physics(restart_s=-1)}, "--restart must be 0 or more"),
        ({"physics": Physics(interval_s=0.0)}, "--interval must be above 0"),
        ({"physics": Physics(interference=1.0)}, "--interference"),
    ],
)
def test_specs_refuse_nonsense(change: dict[str, object], message: str) -> None:
    with pytest.raises(ElastaneError, match=message):
        replace(SMALL, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "4", "0x4:t4", "4x:t4", "axb"])
def test_bad_clusters_are_explained(text: str) -> None:
    with pytest.raises(ElastaneError, match="NODESxGPUS:TYPE"):
        parse_cluster(text)


def test_the_catalog_is_complete_and_names_neighbours() -> None:
    assert len(catalog()) == 6
    assert catalog_app("cifar10").limits(("t4", "a100")).per_gpu_max == 1024
    with pytest.raises(ElastaneError, match="did you mean 'cifar10'"):
        catalog_app("cifar")


def test_the_order_of_node_groups_changes_nothing() -> None:
    spec = RunSpec("synth:philly,jobs=15,days=0.1", "srtf", skip_bad=True)
    figures = [
        summarise(simulate(replace(spec, cluster=text))) for text in ("6x4:t4,1x8:a100", "1x8:a100,6x4:t4")
    ]
    assert figures[0].mean_jct_s == pytest.approx(figures[1].mean_jct_s)
    assert figures[0].mean_rho == pytest.approx(figures[1].mean_rho)


def test_an_interval_that_has_no_effect_is_said() -> None:
    result = simulate(replace(SMALL, policy="fifo", physics=Physics(interval_s=300.0)))
    assert any("decides on events" in note for note in result.notes)


def test_jobs_that_cannot_be_simulated_are_an_error_or_counted() -> None:
    trace = Trace((TraceJob("odd", 0.0, app="cifar11"), TraceJob("ok", 0.0, app="cifar10")), "test")
    cluster = parse_cluster("1x4:t4")
    with pytest.raises(ElastaneError, match="did you mean 'cifar10'"):
        bind(trace, cluster, SMALL.binding(), 0)
    arrivals, notes = bind(trace, cluster, replace(SMALL, skip_bad=True).binding(), 0)
    assert [a.id for a in arrivals] == ["ok"]
    assert any("left out: 1" in note for note in notes)
