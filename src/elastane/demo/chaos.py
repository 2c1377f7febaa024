"""Injects the faults of the demo, with SIGKILL: a worker, and the agent of a node with everything on it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from elastane.engines.local.json_files import read_json
from elastane.engines.local.paths import Layout
from elastane.service.messages import JobDetail, NodeInfo

_ADAPTIVE, _RUNNING, _MEMBER, _UP = "adaptive", "running", "member", "up"


class Target(Enum):
    """The kinds of processes that the demo kills."""

    WORKER = "worker"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class Blow:
    """A kill that was made: the process, when (Unix seconds), and the names of the jobs affected."""

    at_s: float
    target: Target
    name: str
    jobs: tuple[str, ...]
    pid: int

    def sentence(self) -> str:
        """Describes the kill in one sentence."""
        jobs = " and ".join(self.jobs)
        if self.target is Target.WORKER:
            return f"killed worker {self.name} of {jobs} with -9"
        return f"killed the agent of {self.name} with -9; workers of {jobs} died with it"


@dataclass(frozen=True, slots=True)
class Victim:
    """A process that could be killed now, and the names of the jobs it would affect."""

    target: Target
    name: str
    jobs: tuple[str, ...]
    pid: int


def worker_to_kill(jobs: Sequence[JobDetail], least: int) -> Victim | None:
    """Selects the last member of the largest adaptive job that trains with at least ``least`` workers."""
    running = [job for job in jobs if job.kind == _ADAPTIVE and job.state == _RUNNING and job.workers >= least]
    for job in sorted(running, key=lambda job: -job.workers):
        members = [worker for worker in job.processes if worker.doing == _MEMBER and worker.pid is not None]
        if len(members) >= least:
            last = members[-1]
            assert last.pid is not None
            return Victim(Target.WORKER, last.name, (job.name,), last.pid)
    return None


def agent_to_kill(nodes: Sequence[NodeInfo], jobs: Sequence[JobDetail], layout: Layout) -> Victim | None:
    """Selects the most used agent that has workers of training adaptive jobs, and of no other job."""
    by_id = {job.id: job for job in jobs}
    for node in sorted(nodes, key=lambda node: -node.used):
        here = [by_id[id] for id in node.jobs if id in by_id]
        steady = all(job.kind == _ADAPTIVE and job.state == _RUNNING for job in here)
        facts = read_json(layout.agent(node.id))
        if node.state == _UP and here and len(here) == len(node.jobs) and steady and facts is not None:
            return Victim(Target.AGENT, node.id, tuple(job.name for job in here), int(facts["pid"]))
    return None


def strike(victim: Victim, now_s: float) -> Blow | None:
    """Kills a process with SIGKILL; returns None if it was gone already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(victim.pid, signal.SIGKILL)
        return Blow(now_s, victim.target, victim.name, victim.jobs, victim.pid)
    return None
