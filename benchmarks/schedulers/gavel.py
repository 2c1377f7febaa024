"""Gavel: its public simulator's figures on its own trace and throughput table, and the time one decision takes.

The public simulator gives the policy the table that also is the truth, so the policies here are declared oracles.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Literal, TypeVar

from benchmarks.figures import Figures, shared_data
from elastane.cluster import Node
from elastane.jobs.kinds import Kind
from elastane.models.estimate import Estimate, Provenance
from elastane.policies.gavel.policy import OBJECTIVES
from elastane.policies.registry import make_policy
from elastane.policies.view import Facts, JobView, Request, View, masked
from elastane.scheduling.abilities_by_kind import ABILITIES
from elastane.scheduling.decide import decide
from elastane.sim.metrics import summarise
from elastane.sim.run import simulate
from elastane.sim.spec import RunSpec
from elastane.sim.truth.throughput_table import TableJob, TableSpeed, ThroughputTable, throughput_table
from elastane.simcore.physics import Physics

T = TypeVar("T")

_CLUSTER = "2x4:v100,4x4:p100,6x4:k80"
_JOBS, _NODES = 1000, 256
_MOST_S = 2.0
_MANY_LEVELS = ("hierarchical_fifo",)
"""First come, first served inside a tenant has a level, so a program, for nearly every job that runs."""


@dataclass(frozen=True)
class Published:
    """What the public simulator gives on 8 V100, 16 P100 and 24 K80 in rounds of 360 s."""

    policy: str
    mean_jct_s: float
    makespan_s: float


PUBLISHED = (
    Published("gavel-oracle(objective=fifo_released,aware=false)", 35_905.0, 196_524.0),
    Published("gavel-oracle(aware=false)", 19_989.0, 77_141.0),
    Published("gavel-oracle", 14_623.0, 63_945.0),
    Published("gavel-oracle(objective=finish_time_fairness)", 15_010.0, 64_971.0),
)


def gavel(figures: Figures) -> None:
    """Gates: mean JCT within 5 %, makespan within 10 %, a decision for 1,000 jobs on 256 nodes within 2 s."""
    _fidelity(figures)
    _others(figures)
    _decisions(figures)


def _spec(policy: str, compat: bool = True) -> RunSpec:
    return RunSpec(
        workload=str(shared_data("data", "gavel", "max_min_fairness.trace")),
        policy=policy,
        cluster=_CLUSTER,
        profiles=str(shared_data("data", "gavel", "simulation_throughputs.json.gz")),
        compat="gavel" if compat else None,
        physics=Physics(restart_s=30.0),
    )


def _replay(spec: RunSpec) -> tuple[float, float]:
    """Mean JCT and makespan; every job has to finish."""
    result = simulate(spec)
    ends = [job.finish_s for job in result.jobs if job.finish_s is not None]
    mean_s = summarise(result).mean_jct_s
    assert mean_s is not None
    assert len(ends) == len(result.jobs)
    return mean_s, max(ends)


def _fidelity(figures: Figures) -> None:
    for known in PUBLISHED:
        mean_s, makespan_s = _replay(_spec(known.policy))
        figures.within(f"{known.policy} mean JCT s", mean_s, known.mean_jct_s, 0.05, "gate")
        figures.within(f"{known.policy} makespan s", makespan_s, known.makespan_s, 0.10, "gate")
        mean_s, makespan_s = _replay(_spec(known.policy, compat=False))
        figures.note(
            f"{known.policy} with 30 s restarts, placement and completions at once: {mean_s:.0f} / {makespan_s:.0f} s"
        )


def _others(figures: Figures) -> None:
    """The objectives that nobody published figures of on this trace, and other policies on the same truth."""
    known = {published.policy for published in PUBLISHED}
    family = [f"gavel-oracle(objective={name})" for name in OBJECTIVES if name != "max_min_fairness"]
    blind = ["fifo", "tiresias", "srtf"]
    for policy in [*(name for name in family if name not in known), *blind]:
        mean_s, makespan_s = _replay(_spec(policy))
        figures.note(
            f"{policy} with the published physics: mean JCT {mean_s:.0f} s, makespan {makespan_s:.0f} s"
        )


def _decisions(figures: Figures) -> None:
    view = _busy(throughput_table(shared_data("data", "gavel", "simulation_throughputs.json.gz").resolve()))
    for name in OBJECTIVES:
        policy = make_policy(f"gavel-oracle(objective={name})")
        seen = masked(view, policy.needs.info)
        first_s, plan = _timed(partial(policy.decide, seen))
        later = replace(seen, now_s=seen.now_s + 360.0, memory=plan.memory)
        round_s, _ = _timed(partial(decide, policy, later))
        limit = f"gavel-oracle(objective={name}), {_JOBS} jobs on {_NODES} nodes"
        kind: Literal["gate", "goal"] = "goal" if name in _MANY_LEVELS else "gate"
        figures.at_most(f"{limit}, new shares", first_s, _MOST_S, kind, "s")
        figures.at_most(f"{limit}, a round and its lowering", round_s, _MOST_S, "gate", "s")


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    began = time.perf_counter()
    done = work()
    return time.perf_counter() - began, done


def _busy(table: ThroughputTable) -> View:
    """A thousand jobs of the table's types, each with its own amount of work left, on 1,024 GPUs of three types."""
    rng = Random(0)
    types = sorted(table.alone["v100"])
    nodes = [
        Node(f"n{i:03d}", 4, ("v100", "p100", "k80")[i % 3], price_per_gpu_h=(2.5, 1.5, 0.5)[i % 3])
        for i in range(_NODES)
    ]
    jobs = [_waiting(table, f"j{i:04d}", rng, *rng.choice(types)) for i in range(_JOBS)]
    return View(1e5, {job.id: job for job in jobs}, {node.id: node for node in nodes})


def _waiting(table: ThroughputTable, name: str, rng: Random, job_type: str, workers: int) -> JobView:
    steps = rng.uniform(1e3, 1e6)
    facts = Facts(
        remaining=Estimate(steps, source=Provenance.ORACLE),
        speed=TableSpeed(TableJob(table, job_type, workers, steps)),
        deadline_s=1e5 + rng.uniform(1e4, 1e6) if rng.random() < 0.3 else None,
    )
    return JobView(
        name,
        rng.uniform(0.0, 1e5),
        Request(workers, workers, workers),
        job_type,
        abilities=ABILITIES[Kind.RIGID],
        facts=facts,
    )
