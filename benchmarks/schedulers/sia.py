"""Sia: its policy, Pollux, Gavel and our own on its workloads and cluster, its profiles as truth; decision time.

``python -m benchmarks.schedulers.sia [--quick]`` exits non-zero if a gate was missed; quick leaves out the long trace.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar, Literal

import numpy as np

from benchmarks.figures import Figures, shared_data
from elastane.cluster import Grant, Node
from elastane.models.goodput import BatchLimits, GoodputModel
from elastane.models.throughput import ThroughputParams
from elastane.policies.contract import Needs
from elastane.policies.pollux import Pollux
from elastane.policies.registry import make_policy
from elastane.policies.view import ELASTIC, Facts, JobState, JobView, Ledger, Request, View, masked
from elastane.scheduling.decide import decide
from elastane.sim.run import prepare, simulate
from elastane.sim.spec import RunSpec
from elastane.simcore.physics import Physics
from elastane.simcore.world import World

CLUSTER = "6x4:t4,3x8:rtx2080ti,2x8:a100"
"""The paper's 64 GPUs: 24 T4, 24 RTX 2080 Ti, 16 A100."""

_HOUR_S = 3600.0
_JOBS, _NODES = 1000, 256
_GAVEL_ROUND_S = 360.0
_LOSSES = tuple((1e3 * k, 0.1 + 2.0 / k) for k in range(1, 21))


@dataclass(frozen=True)
class Workload:
    """One of the shared workloads, and mean JCT Sia ÷ Pollux on its trace in the paper (averaged over ten samples)."""

    file: str
    published: float


WORKLOADS = (
    Workload("philly/workload-1", 0.60),
    Workload("philly/workload-3", 0.60),
    Workload("saturn/workload-1", 0.70),
    Workload("newtrace/workload-1", 0.47),
)


@dataclass(frozen=True)
class UnawarePollux(Pollux):
    """Pollux as in Sia's evaluation: one model and one memory limit for all accelerator types."""

    name: ClassVar[str] = "pollux-unaware"
    needs: ClassVar[Needs] = replace(Pollux.needs, types_apart=False)


@dataclass(frozen=True)
class Measured:
    """One run in hours; ``rho`` is the worst finish-time fairness, ``restarts`` and ``gpu_h`` are per job."""

    mean: float
    p99: float
    makespan: float
    rho: float
    restarts: float
    gpu_h: float


def sia(figures: Figures) -> None:
    """Gates: ours at most Sia in mean JCT, a decision for 1,000 jobs on 256 nodes within a second of processor time."""
    _decisions(figures)
    workloads = WORKLOADS[:-1] if "--quick" in sys.argv else WORKLOADS
    policies = ("sia", "pollux", "elastane")
    found = {(w.file, policy): _measure(figures, w, policy) for w in workloads for policy in policies}
    for workload in WORKLOADS[:-1]:  # on the long trace rigid jobs pile up (a hundred at a time in the paper)
        _measure(figures, workload, "gavel")
    for workload in workloads:
        mean = found[workload.file, "sia"].mean
        aware, unaware = mean / found[workload.file, "pollux"].mean, mean / _unaware(workload)
        figures.note(f"{workload.file}, mean JCT Sia / Pollux that knows types: {aware:.2f}")
        figures.note(
            f"{workload.file}, mean JCT Sia / unaware Pollux: {unaware:.2f}, paper {workload.published:.2f}"
        )
        off = abs(unaware - workload.published)
        figures.at_most(f"{workload.file}, Sia / unaware Pollux off the paper's", off, 0.10, "goal")
    ours, theirs = (
        float(np.mean([found[workload.file, policy].mean for workload in workloads]))
        for policy in ("elastane", "sia")
    )
    figures.note(f"mean JCT over the workloads, h: ours {ours:.3f}, Sia {theirs:.3f}")
    figures.at_most("mean JCT ours / Sia over the workloads", ours / theirs, 1.0, "gate")
    figures.at_most("mean JCT ours / Sia over the workloads", ours / theirs, 0.90, "goal")


def replay_spec(workload: str, policy: str) -> RunSpec:
    """The published setting: rounds of a minute (Gavel: six), restarts per application, online fits for all."""
    return RunSpec(
        workload=str(shared_data("data", "sia", "workloads", f"{workload}.csv")),
        policy=policy,
        cluster=CLUSTER,
        profiles=str(shared_data("data", "sia", "profiles")),
        compat="sia",
        physics=Physics(interval_s=_GAVEL_ROUND_S if policy == "gavel" else 60.0),
    )


def _measure(figures: Figures, workload: Workload, policy: str) -> Measured:
    result = simulate(replay_spec(workload.file, policy))
    ends = {job.id: job.finish_s for job in result.jobs}
    times = [ends[job.id] - job.submit_s for job in result.jobs if ends[job.id] is not None]  # type: ignore[operator]
    assert len(times) == len(result.jobs), f"{policy} left jobs of {workload.file} unfinished"
    isolated = [job.isolated_s for job in result.jobs]
    found = Measured(
        mean=float(np.mean(times)) / _HOUR_S,
        p99=float(np.percentile(times, 99)) / _HOUR_S,
        makespan=max(end for end in ends.values() if end is not None) / _HOUR_S,
        rho=float(np.max(np.array(times) / np.array(isolated))),
        restarts=float(np.mean([job.restarts for job in result.jobs])),
        gpu_h=float(np.mean([job.service_gpu_s for job in result.jobs])) / _HOUR_S,
    )
    figures.note(
        f"{workload.file}, {policy}: mean JCT {found.mean:.3f} h, p99 {found.p99:.2f}, makespan {found.makespan:.2f}, "
        f"worst rho {found.rho:.2f}, {found.restarts:.2f} restarts and {found.gpu_h:.2f} GPU h a job; "
        f"{np.median(result.decision_ms):.0f} ms a decision, {result.cpu_s:.0f} CPU s"
    )
    return found


def _unaware(workload: Workload) -> float:
    """Mean JCT in hours of a Pollux that does not tell types apart."""
    spec = replay_spec(workload.file, "pollux")
    cluster, arrivals, _ = prepare(spec)
    world = World(cluster, UnawarePollux(), arrivals, spec.effective_physics(), seed=spec.seed)
    world.run()
    times = [run.finish_s - run.arrival.submit_s for run in world.jobs.values() if run.finish_s is not None]
    assert len(times) == len(arrivals)
    return float(np.mean(times)) / _HOUR_S


def _decisions(figures: Figures) -> None:
    view = busy_view()
    for name, limit_s in (("sia", 1.0), ("elasticflow", 1.0), ("slaq", 0.25), ("pickyman", 0.25)):
        policy = make_policy(name)
        began = time.process_time()
        made = decide(policy, masked(view, policy.needs.info))
        took_s = time.process_time() - began
        figures.note(
            f"{name}: {len(made.grants)} of {_JOBS} jobs got GPUs, {len(made.lowered.refused)} changes refused"
        )
        kind: Literal["gate", "goal"] = "gate" if limit_s == 1.0 else "goal"
        figures.at_most(
            f"{name}, a decision for {_JOBS} jobs on {_NODES} nodes", took_s, limit_s, kind, "CPU s"
        )


def busy_view() -> View:
    """A thousand jobs, some of them running, on 256 nodes of three types."""
    rng = Random(0)
    nodes = [Node(f"n{i:03d}", (4, 8, 8)[i % 3], ("t4", "rtx2080ti", "a100")[i % 3]) for i in range(_NODES)]
    free = {node.id: node.gpus for node in nodes}
    jobs = [_job(f"j{i:04d}", rng, nodes, free) for i in range(_JOBS)]
    return View(1e5, {job.id: job for job in jobs}, {node.id: node for node in nodes})


def _job(name: str, rng: Random, nodes: list[Node], free: dict[str, int]) -> JobView:
    grant = None
    if rng.random() < 0.6:
        node, size = rng.choice(nodes), rng.choice((1, 1, 2, 4, 8))
        if size <= free[node.id]:
            free[node.id] -= size
            grant = Grant.of([(node.id, size)])
    params = {}
    for kind, slow in (("t4", 1.0), ("rtx2080ti", 0.7), ("a100", 0.3)):
        sync = (rng.uniform(0.02, 0.3), 0.002, rng.uniform(0.005, 0.05), 0.001)
        params[kind] = ThroughputParams(
            slow * rng.uniform(0.01, 0.05), slow * rng.uniform(0.001, 0.004), *sync, 2.0
        )
    speed = GoodputModel(
        params, rng.uniform(500.0, 20_000.0), BatchLimits(128, 8192, 16, 256), grant.workers if grant else 1
    )
    started = 1.0 if grant else None
    return JobView(
        name,
        rng.uniform(0.0, 9e4),
        Request(1, 1, 64),
        abilities=ELASTIC,
        state=JobState.RUNNING if grant else JobState.PENDING,
        grant=grant,
        restart_s=50.0,
        ledger=Ledger(first_start_s=started, last_change_s=started, restarts=rng.randint(0, 5)),
        facts=Facts(speed=speed, losses=_LOSSES if grant else ()),
    )


if __name__ == "__main__":
    collected = Figures("schedulers-sia")
    sia(collected)
    collected.finish()
