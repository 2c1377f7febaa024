"""A few made-up jobs in every trace format."""

from __future__ import annotations

import json
from collections.abc import Mapping

_HOURS = range(8, 14)


def _csv(head: str, *rows: str) -> str:
    return "\n".join([head, *rows]) + "\n"


def _philly() -> str:
    def job(hour: int) -> dict[str, object]:
        start = f"2017-10-02 {hour:02}:00:00"
        attempt = {
            "start_time": start,
            "end_time": f"2017-10-02 {hour:02}:30:00",
            "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}],
        }
        return {
            "status": "Pass",
            "vc": "x",
            "jobid": f"app_{hour}",
            "attempts": [attempt],
            "submitted_time": start,
        }

    return json.dumps([job(hour) for hour in _HOURS], indent=1) + "\n"


def _gavel(columns: int) -> str:
    lines = []
    for number in range(6):
        kind, command, arrival = "ResNet-18 (batch size 32)", "python3 main.py --data %s/x", 300 * number
        if columns == 7:
            cells = [kind, command, "--num_steps", 1, 600 + number, arrival, 1 + number % 2]
        elif columns == 10:
            cells = [kind, command, "cifar10", "--num_steps", 1, 600, 2, 1.0, -1.0, arrival]
        else:
            cells = [kind, command, "cifar10", "--num_steps", 1, 600, 2, "static", 1.0, -1.0, 600, arrival]
        lines.append("\t".join(map(str, cells)))
    return "\n".join(lines) + "\n"


_ACME = "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue"

TRACES: Mapping[str, str] = {
    "pollux": _csv(
        "name,time,application,num_replicas,batch_size",
        *(f"cifar10-{n},{60 * n},cifar10,{1 + n % 4},{128 * (1 + n % 2)}" for n in range(4)),
    ),
    "philly-csv": _csv(
        "timestamp,duration,num_gpus,gpu_time,cluster",
        *(f"2017-10-03 {hour:02}:00:15,1200.0,{1 + hour % 4},1200.0,ee9e8c" for hour in _HOURS),
    ),
    "philly": _philly(),
    "itp": _csv(
        "job_id,submission_time,duration,num_gpu,cluster",
        *(f"j{n},{600 * n},900.5,{1 + n % 4},{'ab'[n % 2]}" for n in range(6)),
    ),
    "helios": _csv(
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue",
        *(
            f"{n},u1,vc6,{n % 4},8,1,COMPLETED,2020-05-20 {8 + n:02}:00:00,2020-05-20 {8 + n:02}:00:10,"
            f"2020-05-20 {8 + n:02}:20:00,1190,10"
            for n in range(6)
        ),
    ),
    "acme-seren": _csv(
        _ACME,
        *(
            f"j{n},u1,1,{n % 8},16,Other,COMPLETED,2023-06-01 {8 + n:02}:00:00+08:00,2023-06-01 {8 + n:02}:01:00+08:00,"
            f"2023-06-01 {8 + n:02}:31:00+08:00,1800,60"
            for n in range(6)
        ),
    ),
    "acme-kalos": _csv(
        f"{_ACME},fail_time,stop_time",
        *(
            f"j{n},u1,1,{n % 8},16,Other,COMPLETED,2023-06-01 {8 + n:02}:00:00+00:00,2023-06-01 {8 + n:02}:01:00+00:00,"
            f"2023-06-01 {8 + n:02}:31:00+00:00,1860,60,,"
            for n in range(6)
        ),
    ),
    "gavel-7": _gavel(7),
    "gavel-10": _gavel(10),
    "shockwave": _gavel(12),
    "tiresias": _csv(
        "job_id,num_gpu,submit_time,iterations,model_name,duration,interval",
        *(f"{n},{1 + n % 4},{300 * n},1000,vgg16,1200,300" for n in range(6)),
    ),
    "chronus": _csv(
        "job_id,num_gpu,submit_time,iterations,model_name,duration,interval,user,expect_time_list,best_effort,job_type",
        *(f"{n},{1 + n % 4},{5 * n},1000,resnet50,20,5,u1,{60 + n}-90,{n % 2},strict" for n in range(6)),
    ),
}
"""A text per format."""
