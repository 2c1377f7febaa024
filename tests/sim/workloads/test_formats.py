"""Every format: what its columns mean, which records it leaves out, and which of its quirks are undone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elastane.errors import ElastaneError
from elastane.sim.workloads import Trace, detect, load


def put(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "trace"
    path.write_text(text)
    return path


def read(tmp_path: Path, text: str, expect: str, **options: object) -> Trace:
    path = put(tmp_path, text)
    assert detect(path).name == expect
    return load(path, **options)  # type: ignore[arg-type]


def test_pollux_keeps_its_own_clock_and_has_no_durations(tmp_path):
    text = "name,time,application,num_replicas,batch_size\nyolov3-1,90,yolov3,4,64\nncf-0,40,ncf,1,\n"
    trace = read(tmp_path, text, "pollux")
    assert [(j.id, j.submit_s, j.app, j.gpus, j.batch, j.duration_s) for j in trace.jobs] == [
        ("ncf-0", 40.0, "ncf", 1, None, None),
        ("yolov3-1", 90.0, "yolov3", 4, 64, None),
    ]


def philly_job(**changes: object) -> dict[str, object]:
    attempt = {
        "start_time": "2017-10-02 08:00:10",
        "end_time": "2017-10-02 08:01:00",
        "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu3"]}],
    }
    job: dict[str, object] = {"status": "Pass", "vc": "v1", "jobid": "a", "user": "u"}
    job |= {"submitted_time": "2017-10-02 08:00:00", "attempts": [attempt]}
    return job | changes


def attempt(start: str | None, end: str | None, gpus: int = 1) -> dict[str, object]:
    return {"start_time": start, "end_time": end, "detail": [{"ip": "m", "gpus": ["g"] * gpus}]}


def test_philly_counts_gpus_over_servers_and_sums_attempts_without_the_waits(tmp_path):
    second = attempt("2017-10-02 09:00:00", "2017-10-02 09:00:25", 3)
    job = philly_job(attempts=[*philly_job()["attempts"], second])  # type: ignore[misc]
    (only,) = read(tmp_path, json.dumps([job]), "philly").jobs
    assert (only.id, only.submit_s, only.gpus, only.duration_s, only.tenant) == ("a", 0.0, 3, 75.0, "v1")


def test_philly_leaves_out_what_it_cannot_know_and_says_so(tmp_path):
    jobs = [
        philly_job(),
        philly_job(attempts=[]),
        philly_job(submitted_time="None"),
        philly_job(attempts=[attempt("2017-10-02 09:00:00", None)]),
        philly_job(attempts=[attempt("2017-10-02 09:00:00", "None")]),
        philly_job(attempts=[attempt(None, "2017-10-02 09:00:00")]),
        philly_job(attempts=[attempt("2017-10-02 09:00:00", "2017-10-02 09:00:05", gpus=0)]),
    ]
    trace = read(tmp_path, json.dumps(jobs), "philly")
    assert len(trace.jobs) == 1
    assert trace.skipped == 6
    notes = " | ".join(trace.notes)
    for reason in ("1 jobs never scheduled", "2 jobs still running", "1 jobs without a GPU count"):
        assert reason in notes
    assert "1 jobs without a submission time" in notes
    assert "1 jobs without any attempt of known length" in notes


def test_philly_ignores_an_attempt_without_start_between_good_ones(tmp_path):
    tries = [
        attempt("2017-10-02 09:00:00", "2017-10-02 09:00:05"),
        attempt(None, None),
        attempt("2017-10-02 09:10:00", "2017-10-02 09:10:07"),
    ]
    (job,) = read(tmp_path, json.dumps([philly_job(attempts=tries)]), "philly").jobs
    assert job.duration_s == 12.0


def test_philly_clock_change_adds_the_repeated_hour(tmp_path):
    before = philly_job(jobid="b", submitted_time="2017-11-05 00:30:00")
    over = attempt("2017-11-05 01:50:00", "2017-11-05 01:10:00")  # 20 minutes: PDT to PST
    after = philly_job(jobid="c", submitted_time="2017-11-05 03:30:00", attempts=[over])
    first, second = read(tmp_path, json.dumps([before, after], indent=1), "philly").jobs
    assert second.submit_s - first.submit_s == 4 * 3600.0
    assert second.duration_s == 20 * 60.0


def test_philly_errors_name_the_line_of_the_job(tmp_path):
    text = json.dumps([philly_job()]).replace("[{", "[\n\n{", 1).replace("2017-10-02 08:00:00", "yesterday")
    path = put(tmp_path, text)
    with pytest.raises(ElastaneError, match=r"trace, line 3, column submitted_time: 'yesterday'"):
        load(path)


def test_philly_attempt_that_ends_long_before_it_starts_is_bad(tmp_path):
    backwards = attempt("2017-10-02 09:00:00", "2017-10-01 09:00:00")
    path = put(tmp_path, json.dumps([philly_job(attempts=[backwards])]))
    with pytest.raises(ElastaneError, match="end_time"):
        load(path)


def test_broken_json_names_the_line(tmp_path):
    path = put(tmp_path, '[\n{"attempts": []},\n{"attempts": oops}]')
    with pytest.raises(ElastaneError, match="line 3: not valid JSON"):
        load(path)


def test_philly_csv_starts_at_zero_and_survives_a_blank_last_line(tmp_path):
    text = (
        "timestamp,duration,num_gpus,gpu_time,cluster\n"
        "2017-10-01 00:01:00,30.0,8,240.0,vb\n"
        "2017-10-01 00:00:00,5.0,1,5.0,va\n\n"
    )
    trace = read(tmp_path, text, "philly-csv")
    got = [(j.submit_s, j.gpus, j.duration_s, j.tenant) for j in trace.jobs]
    assert got == [(0.0, 1, 5.0, "va"), (60.0, 8, 30.0, "vb")]


ITP = "cluster,job_id,submission_time,duration,num_gpu\nc1,x,500,700,2\nc2,y,100,800,1\nc1,z,400,900,4\n"


def test_itp_clusters_are_tenants_or_one_is_chosen(tmp_path):
    assert [j.tenant for j in read(tmp_path, ITP, "itp").jobs] == ["c2", "c1", "c1"]
    chosen = read(tmp_path, ITP, "itp", cluster="c1")
    assert [(j.id, j.submit_s) for j in chosen.jobs] == [("z", 0.0), ("x", 100.0)]
    assert chosen.skipped == 0


def test_itp_without_cluster_column(tmp_path):
    (job,) = read(tmp_path, "job_id,submission_time,duration,num_gpu\nx,500,700,2\n", "itp").jobs
    assert (job.gpus, job.duration_s, job.tenant) == (2, 700.0, "default")


def test_itp_unknown_cluster_suggests_the_nearest(tmp_path):
    path = put(tmp_path, ITP.replace("c1", "cluster01"))
    with pytest.raises(ElastaneError, match="did you mean 'cluster01'"):
        load(path, cluster="cluster1")


HELIOS = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"


def test_helios_leaves_out_cpu_jobs_suspended_jobs_and_jobs_that_never_ran(tmp_path):
    time = "2020-05-01 10:00:00,2020-05-01 10:00:00,2020-05-01 10:01:00"
    text = HELIOS + (
        f"1,u1,vcA,8,16,1,COMPLETED,{time},60,0\n"
        f"2,u1,vcA,0,16,1,COMPLETED,{time},60,0\n"
        f"3,u1,vcA,1,16,1,SUSPENDED,{time},60,0\n"
        f"4,u1,vcA,1,16,1,CANCELLED,{time},0,0\n"
        f"5,u1,vcB,1,16,1,NODE_FAIL,{time.replace('10:00:00', '10:00:30', 1)},30,0\n"
    )
    trace = read(tmp_path, text, "helios")
    assert [(j.id, j.submit_s, j.gpus, j.tenant) for j in trace.jobs] == [
        ("1", 0.0, 8, "vcA"),
        ("5", 30.0, 1, "vcB"),
    ]
    assert trace.skipped == 3
    assert "left out 1 jobs without GPUs" in trace.notes


SEREN = (
    "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
)
KALOS = (
    "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,"
    "end_time,fail_time,stop_time,duration,queue,gpu_time\n"
)


def test_seren_takes_the_duration_as_written(tmp_path):
    text = SEREN + (
        "1,u1,1,8,8,SFT,FAILED,2023-03-02 00:00:00+08:00,2023-03-02 00:00:10+08:00,"
        "2023-03-02 00:02:00+08:00,110,10,880\n"
        "2,u2,1,0,8,Other,COMPLETED,2023-03-02 00:00:00+08:00,,,5,0,0\n"
        "3,u3,1,1.0,8,Other,COMPLETED,2023-03-01 16:01:00+00:00,,,7,0,0\n"
    )
    trace = read(tmp_path, text, "acme-seren")
    assert [(j.id, j.submit_s, j.gpus, j.duration_s) for j in trace.jobs] == [
        ("1", 0.0, 8, 110.0),
        ("3", 60.0, 1, 7.0),
    ]
    assert trace.skipped == 1


def test_kalos_duration_is_without_the_queueing_it_counts(tmp_path):
    day = "2023-06-01 "
    text = KALOS + (
        f"a,u1,1,8,8,1,1,SFT,FAILED,{day}05:00:00+00:00,{day}05:00:10+00:00,{day}05:00:30+00:00,,,30,10.0,240\n"
        f"b,u1,1,8,8,1,1,SFT,CANCELLED,{day}05:00:05+00:00,,{day}05:00:30+00:00,,,40,15.0,240\n"
        f"c,u1,1,8,8,1,1,SFT,CANCELLED,{day}05:00:05+00:00,,,,,15,15.0,240\n"
    )
    trace = read(tmp_path, text, "acme-kalos")
    assert [(j.id, j.duration_s) for j in trace.jobs] == [("a", 20.0), ("b", 25.0)]
    assert "left out 1 jobs that never ran" in trace.notes


GAVEL7 = "ResNet-18 (batch size 64)\tcd %s && python3 m.py\t--steps\t1\t5000\t20.000000\t2\n"
GAVEL10 = "LM (batch size 5)\tpython3 m.py\tlm\t--steps\t1\t1000\t4\t2\t1.5\t30\n"
SHOCKWAVE = "ResNet-50 (batch size 32)\tpython3 m.py\tim\t-n\t1\t9000\t4\tgns\t1\t-1.000000\t360\t12\n"


def test_gavel_turns_steps_into_seconds_with_the_option(tmp_path):
    first = GAVEL7 + GAVEL7.replace("20.0", "50.0")
    trace = read(tmp_path, first, "gavel", steps_per_s=10.0)
    assert [(j.submit_s, j.gpus, j.app, j.duration_s) for j in trace.jobs] == [
        (0.0, 2, "cifar10", 500.0),
        (30.0, 2, "cifar10", 500.0),
    ]


def test_gavel_without_the_option_says_which_one_is_missing(tmp_path):
    path = put(tmp_path, GAVEL7)
    with pytest.raises(ElastaneError, match=r"line 1, column steps: .*steps_per_s=NUMBER"):
        load(path, skip_bad=True)


def test_gavel_testbed_has_weights_and_an_slo_that_multiplies_the_duration(tmp_path):
    (job,) = read(tmp_path, GAVEL10, "gavel", steps_per_s=10.0).jobs
    assert (job.gpus, job.app, job.weight, job.deadline_s) == (4, None, 2.0, 150.0)


def test_shockwave_has_durations_of_its_own(tmp_path):
    (job,) = read(tmp_path, SHOCKWAVE, "shockwave").jobs
    assert (job.gpus, job.app, job.duration_s, job.deadline_s) == (4, "imagenet", 360.0, None)


def test_gavel_row_with_another_number_of_columns_is_bad(tmp_path):
    path = put(tmp_path, SHOCKWAVE + "only\tthree\tcells\n")
    with pytest.raises(ElastaneError, match=r"line 2, .*has 3 tab-separated columns, not 12"):
        load(path)


TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"


def test_tiresias_uses_the_duration_and_else_the_iterations(tmp_path):
    trace = read(tmp_path, TIRESIAS + "0,1,5,100,vgg16,60,3\n1,8,8,100,vgg16,,3\n", "tiresias", steps_per_s=4.0)
    assert [(j.submit_s, j.gpus, j.duration_s) for j in trace.jobs] == [(0.0, 1, 60.0), (3.0, 8, 25.0)]


CHRONUS = (
    "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,"
    "expect_time_list,expect_value_list,best_effort,job_type\n"
)


def test_chronus_deadlines_count_from_submission_in_minutes(tmp_path):
    text = CHRONUS + (
        "0,va,4,10,9,resnet101,20,1,30,10,0,strict\n"
        "1,va,1,11,9,resnet101,20,1,40-50-60,9-5-1,0,soft\n"
        "2,vb,1,12,9,resnet101,20,1,0,1,1,best\n"
        "3,vb,0,12,9,resnet101,20,1,30,1,0,strict\n"
    )
    trace = read(tmp_path, text, "chronus")
    assert [(j.submit_s, j.duration_s, j.deadline_s) for j in trace.jobs] == [
        (0.0, 1200.0, 1800.0),
        (60.0, 1200.0, 60.0 + 2400.0),
        (120.0, 1200.0, None),
    ]
    assert trace.skipped == 1
    in_seconds = load(tmp_path / "trace", time_unit_s=1.0)
    assert in_seconds.jobs[0].deadline_s == 30.0
