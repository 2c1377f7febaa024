"""Columns with what owners ask for: read in every format with a header, each held to the rules of a job spec."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastane.errors import ElastaneError
from elastane.jobs.kinds import Kind
from elastane.sim.workloads import detect, load
from elastane.sim.workloads.trace import TraceJob

OURS = "id,submit_s,gpus,duration_s,class,kind,tenant,priority,weight,deadline_s\n"


def put(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    return path


def test_our_own_format_says_everything_that_a_job_can_be(tmp_path: Path) -> None:
    text = OURS + "a,100,2,60,guaranteed,command,vision,-3,2.5,600\nb,130,1,60,,,,,,\n"
    path = put(tmp_path, text)
    assert detect(path).name == "elastane"
    trace = load(path)
    assert trace.jobs == (
        TraceJob(
            "a",
            0.0,
            gpus=2,
            duration_s=60.0,
            tenant="vision",
            deadline_s=600.0,
            weight=2.5,
            priority=-3,
            klass="guaranteed",
            kind=Kind.COMMAND,
        ),
        TraceJob("b", 30.0, gpus=1, duration_s=60.0),
    )


def test_our_own_format_may_name_the_application_and_its_batch(tmp_path: Path) -> None:
    (job,) = load(put(tmp_path, "id,submit_s,gpus,app,batch\na,0,4,cifar10,512\n")).jobs
    assert (job.app, job.batch, job.duration_s) == ("cifar10", 512, None)
    with pytest.raises(ElastaneError, match=r"line 2, column id: 'a' has neither an app nor a duration_s"):
        load(put(tmp_path, "id,submit_s,gpus\na,0,4\n"))


@pytest.mark.parametrize(
    "text",
    [
        "job_id,submission_time,duration,num_gpu,class,priority\na,0,60,1,opportunistic,7\n",
        "name,time,application,num_replicas,batch_size,class,priority\na,0,cifar10,1,,opportunistic,7\n",
    ],
)
def test_formats_of_others_may_have_the_columns_too(tmp_path: Path, text: str) -> None:
    (job,) = load(put(tmp_path, text)).jobs
    assert (job.klass, job.priority, job.kind, job.weight) == ("opportunistic", 7, None, 1.0)


def test_an_empty_cell_leaves_what_the_format_says(tmp_path: Path) -> None:
    text = "job_id,submission_time,duration,num_gpu,cluster,tenant\na,0,60,1,c1,\nb,0,60,1,c1,vision\n"
    assert [job.tenant for job in load(put(tmp_path, text)).jobs] == ["c1", "vision"]


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("class", "guarantee", "'guarantee' is no class of a job; did you mean 'guaranteed'"),
        ("class", "Normal", "'Normal' is no class of a job"),
        ("kind", "auto", "'auto' is no kind of a job"),
        ("kind", "rigidd", "'rigidd' is no kind of a job; did you mean 'rigid'"),
        ("tenant", "a\x1b[31m", "is not a name of at most 200 printable characters"),
        ("tenant", "t" * 201, "is not a name of at most 200 printable characters"),
        ("priority", "high", "'high' is not a number"),
        ("priority", "1.5", "'1.5' is not a whole number"),
        ("priority", "1000001", "'1000001' is above 1,000,000"),
        ("priority", "-1000001", "'-1000001' is not a finite number from"),
        ("weight", "0", "'0' is not above 0 and at most 1,000,000"),
        ("weight", "-1", "'-1' is not a finite number"),
        ("weight", "1e7", "'1e7' is not above 0 and at most 1,000,000"),
        ("weight", "inf", "'inf' is not a finite number"),
        ("deadline_s", "0", "'0' is not above 0 and at most 100 years"),
        ("deadline_s", "1e12", "'1e12' is not above 0 and at most 100 years"),
        ("deadline_s", "tomorrow", "'tomorrow' is not a number"),
    ],
)
def test_a_wrong_value_is_refused_with_its_column_and_row(
    tmp_path: Path, column: str, value: str, says: str
) -> None:
    header = f"id,submit_s,gpus,duration_s,{column}\n"
    path = put(tmp_path, f"{header}good,0,1,60,\nbad,0,1,60,{value}\n")
    with pytest.raises(ElastaneError) as refused:
        load(path)
    assert f"trace.csv, line 3, column {column}: " in str(refused.value)
    assert says in str(refused.value)
    trace = load(path, skip_bad=True)
    assert ([job.id for job in trace.jobs], trace.skipped) == (["good"], 1)


@pytest.mark.parametrize(("row", "column"), [(",0,1,60", "id"), ("a,x,1,60", "submit_s"), ("a,0,0,60", "gpus")])
def test_our_own_formats_columns_are_checked(tmp_path: Path, row: str, column: str) -> None:
    with pytest.raises(ElastaneError, match=f"line 2, column {column}: "):
        load(put(tmp_path, f"id,submit_s,gpus,duration_s\n{row}\n"))
