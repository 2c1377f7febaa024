"""Throughput tables as truth: reading them, the speed they give, and whole runs of traces that count steps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from elastane.cluster import Grant
from elastane.errors import ElastaneError
from elastane.models.estimate import Provenance
from elastane.sim.run import prepare, simulate
from elastane.sim.spec import RunSpec
from elastane.sim.truth.throughput_table import TableJob, throughput_table

TABLE = {
    "v100": {"('net', 1)": {"null": 4.0, "('net', 1)": [2.0, 2.0]}, "('net', 2)": {"null": 7.0}},
    "k80": {"('net', 1)": {"null": 1.0}, "('net', 2)": {"null": 0.0}},
    "v100_unconsolidated": {"('net', 2)": {"null": 5.0}},
}
LINE = "{type}\tpython3 m.py\tdir\t--steps\t1\t{steps}\t{gpus}\t{weight}\t{slo}\t{at}\n"


def put(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def line(steps: int, gpus: int = 1, *, job_type: str = "net", at: float = 0.0, slo: float = -1.0) -> str:
    return LINE.format(type=job_type, steps=steps, gpus=gpus, weight=1, slo=slo, at=at)


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    """Two jobs of 4000 and 2000 steps on a V100 and a K80."""
    trace = put(tmp_path / "trace", line(4000) + line(2000, at=10.0))
    table = put(tmp_path / "table.json", TABLE)
    return RunSpec(str(trace), "gavel-oracle", cluster="1x1:v100,1x1:k80", profiles=str(table))


def test_speed_depends_on_type_workers_and_whether_they_stand_together(tmp_path: Path) -> None:
    table = throughput_table(put(tmp_path / "t", TABLE))
    two = TableJob(table, "net", 2, 70.0)
    near, apart = Grant.of([("a", 2)]), Grant.of([("a", 1), ("b", 1)])
    assert two.pace(near, "v100", None, 0.0).rate == 7.0
    assert two.pace(apart, "v100", None, 0.0).rate == 5.0
    assert two.pace(near, "k80", None, 0.0).rate == 0.0
    assert two.pace(Grant.of([("a", 1)]), "v100", None, 0.0).rate == 0.0  # it asked for two
    assert TableJob(table, "net", 2, 70.0, placed=False).pace(apart, "v100", None, 0.0).rate == 7.0
    left, speed = two.oracle(20.0, None)
    assert (left.mean, left.source) == (50.0, Provenance.ORACLE)
    assert speed.rates(np.array([1, 2, 1]), np.array([2, 2, 1]), "v100").tolist() == [7.0, 5.0, 0.0]


def test_whole_steps_leave_the_rest_of_a_round_unused(tmp_path: Path) -> None:
    table = throughput_table(put(tmp_path / "t", {"v100": {"('net', 1)": {"null": 0.7}}}))
    job = TableJob(table, "net", 1, 70.0, whole_steps_s=10.0)
    assert job.pace(Grant.of([("a", 1)]), "v100", None, 0.0).rate == 0.7
    odd = TableJob(table, "net", 1, 70.0, whole_steps_s=9.0)
    assert odd.pace(Grant.of([("a", 1)]), "v100", None, 0.0).rate == pytest.approx(6 / 9)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ([1, 2], "is no table of throughputs"),
        ({"v100": 3}, "'v100': an object by job type is expected"),
        ({"v100": {"net": {"null": 1.0}}}, r"'net' is not of the form \('job type', workers\)"),
        ({"v100": {"('net', 1)": {"null": -1.0}}}, "'null' is no throughput in steps per second: -1.0"),
        ({"v100": {"('net', 1)": {}}}, "'null' is no throughput in steps per second: None"),
        ("{", "not JSON"),
    ],
)
def test_a_file_that_is_no_table_is_refused_with_the_place(
    tmp_path: Path, content: object, complaint: str
) -> None:
    with pytest.raises(ElastaneError, match=complaint):
        throughput_table(put(tmp_path / "t", content))


def test_every_job_runs_as_fast_as_the_table_says(spec: RunSpec) -> None:
    result = simulate(replace(spec, policy="fifo"))
    assert result.physics["truth"] == "throughput table"
    ends = sorted(job.finish_s - job.submit_s - 30.0 for job in result.jobs if job.finish_s is not None)
    # Both start at once, one on each type, and stay there: 1000 s and 2000 s, or 4000 s and 500 s.
    assert ends in ([1000.0, 2000.0], [500.0, 4000.0])


def test_gavels_simulator_decides_in_rounds_and_moves_for_free(spec: RunSpec) -> None:
    result = simulate(replace(spec, compat="gavel"))
    assert (result.physics["round_s"], result.physics["restart_s"]) == (360.0, 0.0)
    assert {job.start_s for job in result.jobs} == {360.0}
    assert all(job.restart_gpu_s == 0.0 for job in result.jobs)
    other = simulate(replace(spec, compat="gavel", physics=replace(spec.physics, interval_s=100.0)))
    assert other.physics["round_s"] == 100.0


def test_owners_know_where_their_jobs_run_and_an_slo_is_counted_from_submission(spec: RunSpec) -> None:
    put(Path(spec.workload), line(700, 2, at=50.0, slo=1.5))
    _, (arrival,), _ = prepare(replace(spec, cluster="1x2:v100,1x2:k80"))
    assert arrival.request.types == ("v100",)
    assert (arrival.declared_work, arrival.declared_s) == (700.0, 100.0)
    assert arrival.deadline_s == arrival.submit_s + 150.0


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        (line(10, job_type="nett"), "has no throughput of 'nett'.*'net'"),
        (line(10, 4), "has no throughput of 'net' on 4 workers"),
        (line(10, 2), "has no throughput of 'net' on k80"),
    ],
)
def test_a_job_that_the_table_does_not_know_is_named(spec: RunSpec, row: str, complaint: str) -> None:
    put(Path(spec.workload), row)
    with pytest.raises(ElastaneError, match=complaint):
        prepare(replace(spec, cluster="4x1:k80"))


def test_a_table_needs_a_trace_that_counts_steps(spec: RunSpec) -> None:
    with pytest.raises(ElastaneError, match="a table of throughputs needs a trace with job types and steps"):
        prepare(replace(spec, workload="pollux:1,jobs=3", cluster="4x4:v100"))
    other = put(
        Path(spec.workload).parent / "jobs.csv",
        "name,time,application,num_replicas,batch_size\na,0,bert,1,12\n",
    )
    with pytest.raises(ElastaneError, match="has no job types and steps"):
        prepare(replace(spec, workload=str(other)))
