"""Runs one simulation and records what happened."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from elastane.cluster import Cluster
from elastane.kit.durations import duration
from elastane.policies.contract import Policy
from elastane.policies.registry import make_policy
from elastane.sim.attach_truth import bind
from elastane.sim.fairness import Contention, Isolation
from elastane.sim.history import experience_of, pool_at, recaller
from elastane.sim.result import JobRecord, RunResult, Stretch
from elastane.sim.spec import RunSpec, parse_cluster
from elastane.sim.workloads import parse_workload
from elastane.simcore.job_run import Arrival, JobRun
from elastane.simcore.world import Outage, World

Progress = Callable[[int, int], None]
"""Called with (jobs finished, jobs in all)."""


def simulate(spec: RunSpec, on_progress: Progress | None = None) -> RunResult:
    """Simulates a run to its end; the result is deterministic but for the timings."""
    policy = make_policy(spec.policy)
    cluster, arrivals, notes = prepare(spec)
    notes = (*notes, *_unused(spec, policy))
    recall, history_note = recaller(spec.history) if spec.history else (None, "")
    notes = (*notes, history_note) if history_note else notes
    wall, cpu = time.perf_counter(), time.process_time()
    world = World(
        cluster,
        policy,
        arrivals,
        spec.effective_physics(),
        seed=spec.seed,
        outages=_outages(spec, cluster, max((a.submit_s for a in arrivals), default=0.0)),
        on_progress=(lambda done: on_progress(done, len(arrivals))) if on_progress else None,
        recall=recall,
    )
    world.run()
    if world.rejected:
        notes = (*notes, f"{len(world.rejected)} jobs were turned away or stopped by the policy")
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return _result(spec, policy, world, (*notes, *_by_class(world)), wall, cpu)


def prepare(spec: RunSpec) -> tuple[Cluster, list[Arrival], tuple[str, ...]]:
    """Reads everything a run needs: the cluster, the jobs, and notes on what was left out."""
    cluster = parse_cluster(spec.cluster)
    binding = spec.binding()
    trace = parse_workload(
        spec.workload,
        seed=spec.seed,
        load=spec.load,
        skip_bad=spec.skip_bad,
        format=spec.format,
        keep_steps=binding.table is not None,
    )
    if spec.history:
        pool_at(spec.history)
    arrivals, notes = bind(trace, cluster, binding, spec.seed)
    return cluster, arrivals, (*trace.notes, *notes)


def _unused(spec: RunSpec, policy: Policy) -> tuple[str, ...]:
    """Notes options that were given and have no effect on this policy."""
    if spec.physics.interval_s and policy.needs.period_s is None and not spec.effective_physics().rounds_only:
        return (f"decides on events, so the interval of {spec.physics.interval_s:g} s does not apply",)
    return ()


def _by_class(world: World) -> tuple[str, ...]:
    """Mean completion times by class, where owners asked for several."""
    times: dict[str, list[float]] = {}
    for run in world.jobs.values():
        if run.finish_s is not None:
            times.setdefault(run.arrival.klass, []).append(run.finish_s - run.arrival.submit_s)
    if len(times) < 2:
        return ()
    told = (
        f"{name} {duration(sum(took) / len(took))} ({len(took)} jobs)" for name, took in sorted(times.items())
    )
    return (f"mean completion time by class: {', '.join(told)}",)


def _outages(spec: RunSpec, cluster: Cluster, last_submit_s: float) -> list[Outage]:
    """Draws node failures as a Poisson process over the submissions and a day more, each an hour long."""
    if spec.failures_per_1000_node_days <= 0.0:
        return []
    rng = np.random.default_rng(np.random.SeedSequence([spec.seed, 3]))
    horizon_s = last_submit_s + 86400.0
    rate_per_s = spec.failures_per_1000_node_days / 1000.0 / 86400.0
    outages = []
    for node in cluster.nodes:
        when = rng.exponential(1.0 / rate_per_s)
        while when < horizon_s:
            outages.append(Outage(node, when, when + 3600.0))
            when += 3600.0 + rng.exponential(1.0 / rate_per_s)
    return outages


def _result(
    spec: RunSpec, policy: Policy, world: World, notes: tuple[str, ...], wall: float, cpu: float
) -> RunResult:
    contention = Contention((run.arrival.submit_s, run.finish_s or world.now_s) for run in world.jobs.values())
    isolation = Isolation(world.cluster)
    first_s = world.physics.first_start_s
    start_s = world.physics.restart_s if first_s is None else first_s
    set_physics = {
        k: v for k, v in spec.effective_physics().as_dict().items() if v is not None and v is not False
    }
    physics = {
        **set_physics,
        "round_s": world.period_s or "on events",
        "cluster": spec.cluster,
        "load": spec.load,
        "compat": spec.compat or "none",
        "truth": _truth(spec),
        "declared": spec.declare,
        **({"declare_error": spec.declare_error} if spec.declare_error else {}),
        "failures_per_1000_node_days": spec.failures_per_1000_node_days,
        **({"history": spec.history} if spec.history else {}),
    }
    return RunResult(
        policy=spec.policy,
        title=policy.title,
        parameters=policy.parameters(),
        oracle=policy.needs.oracle,
        workload=spec.workload,
        physics=physics,
        seed=spec.seed,
        total_gpus=world.cluster.total_gpus,
        jobs=tuple(_record(run, contention, isolation, start_s, world.now_s) for run in world.jobs.values()),
        decision_ms=tuple(world.decision_ms),
        wall_s=wall,
        cpu_s=cpu,
        notes=notes,
    )


def _truth(spec: RunSpec) -> str:
    if spec.workload.startswith("optimus:"):
        return "parameter-server kinds"
    if spec.binding().table is not None:
        return "throughput table"
    return "measured profiles" if spec.profiles else "built-in catalog"


def _record(
    run: JobRun, contention: Contention, isolation: Isolation, start_s: float, end_s: float
) -> JobRecord:
    arrival = run.arrival
    finish = run.finish_s if run.finish_s is not None else end_s
    run.close_span()
    return JobRecord(
        id=run.id,
        app=arrival.behaviour.app,
        tenant=arrival.tenant,
        submit_s=arrival.submit_s,
        start_s=run.first_start_s,
        finish_s=run.finish_s,
        requested_gpus=arrival.request.workers,
        service_gpu_s=run.service_gpu_s,
        restart_gpu_s=run.restart_gpu_s,
        restarts=run.restarts,
        isolated_s=start_s + isolation.alone_s(run, contention.average(arrival.submit_s, finish)),
        stretches=tuple(
            Stretch(s.start_s, s.end_s, s.gpus, s.nodes, s.batch, s.efficiency, s.restarting_s)
            for s in run.spans
        ),
        deadline_s=arrival.deadline_s,
        experience=experience_of(run),
    )
