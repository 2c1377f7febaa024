"""Who is killed: somebody whose loss shows something, and nobody who would have to start over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from demo.samples import T0, detail, member
from elastane.demo.chaos import Target, Victim, agent_to_kill, strike, worker_to_kill
from elastane.engines.local.json_files import write_json
from elastane.engines.local.paths import Layout
from elastane.service.messages import JobDetail, NodeInfo


def running(name: str, workers: int, kind: str = "adaptive", doing: str = "member") -> JobDetail:
    people = [member(f"w{i}", "n0", 100 + i, doing) for i in range(1, workers + 1)]
    return detail(name, state="running", ended_s=None, kind=kind, workers=workers, processes=people)


def node(name: str, state: str = "up", **jobs: int) -> NodeInfo:
    held = {f"j-{job}": count for job, count in jobs.items()}
    return NodeInfo(id=name, slots=2, used=sum(held.values()), accelerator="cpu", state=state, jobs=held)  # type: ignore[arg-type]


def layout(home: Path, *nodes: str) -> Layout:
    place = Layout(home)
    for number, name in enumerate(nodes):
        place.node(name).mkdir(parents=True)
        write_json(place.agent(name), {"pid": 500 + number})
    return place


def test_the_largest_adaptive_job_loses_its_last_worker() -> None:
    jobs = [running("small", 2), running("large", 3), running("alone", 4, kind="command")]
    assert worker_to_kill(jobs, 2) == Victim(Target.WORKER, "w3", ("large",), 103)


def test_no_worker_is_hit_before_enough_of_them_train() -> None:
    assert worker_to_kill([running("cnn", 1)], 2) is None
    assert worker_to_kill([running("cnn", 3, doing="warming")], 2) is None
    assert worker_to_kill([], 1) is None
    assert worker_to_kill([running("cnn", 1)], 1) is not None


def test_the_agent_of_a_node_with_adaptive_jobs_only_is_hit(tmp_path: Path) -> None:
    jobs = [running("cnn", 2), running("rows", 1, kind="command")]
    nodes = [node("n0", cnn=1, rows=1), node("n1", cnn=1)]
    assert agent_to_kill(nodes, jobs, layout(tmp_path, "n0", "n1")) == Victim(Target.AGENT, "n1", ("cnn",), 501)


def test_no_agent_is_hit_that_is_lost_idle_or_busy_with_a_change(tmp_path: Path) -> None:
    place = layout(tmp_path, "n0")
    assert agent_to_kill([node("n0", cnn=1)], [running("cnn", 1)], place) is not None
    assert agent_to_kill([node("n0", "lost", cnn=1)], [running("cnn", 1)], place) is None
    assert agent_to_kill([node("n0")], [running("cnn", 1)], place) is None
    changing = running("cnn", 1).model_copy(update={"state": "resizing"})
    assert agent_to_kill([node("n0", cnn=1)], [changing], place) is None
    assert agent_to_kill([node("n0", cnn=1)], [], place) is None
    assert agent_to_kill([node("n1", cnn=1)], [running("cnn", 1)], place) is None


def test_a_blow_is_a_real_kill_and_none_if_nobody_is_there() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    victim = Victim(Target.WORKER, "w1", ("cnn",), process.pid)
    blow = strike(victim, T0)
    assert process.wait(30) == -signal.SIGKILL
    assert blow is not None
    assert (blow.at_s, blow.name, blow.pid) == (T0, "w1", process.pid)
    assert strike(victim, T0) is None
    assert os.getpid() != process.pid
