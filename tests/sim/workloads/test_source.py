"""What people type: the grammar, its errors, and the load factor."""

from __future__ import annotations

import pytest

from elastane.errors import ElastaneError
from elastane.sim.workloads import parse_workload, pollux_like, synthesise

ITP = "cluster,job_id,submission_time,duration,num_gpu\n" + "".join(
    f"c{n % 2},j{n},{n},60,1\n" for n in range(100)
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a,b=1_trace:x.csv"  # published names hold commas
    path.write_text(ITP)
    return path


def test_pollux_with_keys():
    assert parse_workload("pollux:6") == pollux_like(6)
    assert parse_workload("pollux:6,jobs=32,realistic,hours=4", seed=9) == pollux_like(6, 32, 4, True)
    assert parse_workload("pollux:6,realistic=no") == pollux_like(6)


def test_synth_with_keys_and_seed():
    assert parse_workload("synth:itp,jobs=50,days=2", seed=3) == synthesise("itp", 50, 2, seed=3)
    assert parse_workload("synth:itp,jobs=50,days=2,seed=4", seed=3) == synthesise("itp", 50, 2, seed=4)


@pytest.mark.parametrize(
    "text", ["synth:kalos,jobs=37", "synth:venus,jobs=20,days=0.5", "pollux:3,jobs=9,realistic"]
)
def test_the_source_of_a_built_in_workload_names_it_again(text):
    trace = parse_workload(text, seed=5)
    assert parse_workload(trace.source) == trace


def test_file_with_options_behind_its_name(file):
    assert len(parse_workload(str(file)).jobs) == 100
    assert len(parse_workload(f"{file},cluster=c1").jobs) == 50


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("polux:6", "did you mean pollux:N"),
        ("sinth:philly", "did you mean synth:NAME"),
        ("philly", "did you mean synth:philly"),
        ("quux.csv", "no such file; built in are"),
        ("pollux:six", "whole number as its seed"),
        ("pollux:6,job=3", "unknown key 'job'; did you mean 'jobs'"),
        ("pollux:6,jobs=many", "jobs=many"),
        ("pollux:6,jobs=0", "at least one job"),
        ("pollux:²", "whole number as its seed"),
        ("pollux:6,jobs=1000001", "jobs=1000001: .* at most 1,000,000"),
        ("pollux:6,hours=0", "hours=0: .*above zero"),
        ("pollux:6,hours=87601", "hours=87601: .*at most 87,600"),
        ("synth:philly,jobs=-3", "jobs=-3: .*at least one job"),
        ("synth:philly,jobs=3,days=1e300", r"days=1e\+300: .*at most 3,650"),
        ("synth:philly,days=nan", "days=nan: .*above zero"),
        ("synth:philly,days=3650", "days=3650 makes .* more than 1,000,000"),
        ("pollux:6,realistic=maybe", "realistic=maybe"),
        ("synth:helios,jobs=3", "no synthetic trace 'helios'"),
        ("synth:itp,jbs=3", "did you mean 'jobs'"),
        ("synth:itp,days=0", "above zero"),
    ],
)
def test_mistakes_are_named_with_the_nearest_known(text, says):
    with pytest.raises(ElastaneError, match=says):
        parse_workload(text)


def test_unknown_key_behind_a_file(file):
    with pytest.raises(ElastaneError, match="unknown key 'clutser'; did you mean 'cluster'"):
        parse_workload(f"{file},clutser=c1")


def test_load_makes_generators_busier():
    assert len(parse_workload("synth:itp,jobs=100,days=2", load=1.5).jobs) == 150
    assert len(parse_workload("pollux:1", load=0.5).jobs) == 80


@pytest.mark.parametrize(("load", "count"), [(0.25, 25), (1.0, 100), (1.3, 130), (2.0, 200), (2.5, 250)])
def test_load_thins_or_repeats_a_file_exactly(file, load, count):
    trace = parse_workload(str(file), load=load, seed=1)
    times = [job.submit_s for job in trace.jobs]
    assert len(trace.jobs) == count == len({job.id for job in trace.jobs})
    assert times == sorted(times)
    assert trace == parse_workload(str(file), load=load, seed=1)


@pytest.mark.parametrize("text", ["pollux:1", "synth:itp,jobs=100", "file"])
def test_load_stops_where_no_simulation_could_run(file, text):
    with pytest.raises(ElastaneError, match="makes more than 1,000,000 jobs"):
        parse_workload(str(file) if text == "file" else text, load=1e9)


@pytest.mark.parametrize("text", ["pollux:1", "synth:itp,jobs=100"])
def test_a_generated_workload_has_no_format(text):
    with pytest.raises(ElastaneError, match="--format is for trace files"):
        parse_workload(text, format="philly")


def test_load_choice_follows_the_seed_and_keeps_jobs_whole(file):
    whole = {job.id: job for job in parse_workload(str(file)).jobs}
    thin = [parse_workload(str(file), load=0.5, seed=seed) for seed in (1, 2)]
    assert thin[0].jobs != thin[1].jobs
    assert all(whole[job.id] == job for job in thin[0].jobs)


def test_skip_bad_and_format_reach_the_loader(file):
    file.write_text(ITP + "c1,bad,x,60,1\n")
    assert parse_workload(str(file), skip_bad=True).skipped == 1
    with pytest.raises(ElastaneError, match="format pollux needs"):
        parse_workload(str(file), format="pollux")
