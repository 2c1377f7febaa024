"""Lets the simulator repeat what the live system has done, with the speeds its jobs measured: a check on both.

Adaptive jobs train by their fitted models, other jobs take the time they took.  Starting costs what it cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from elastane.cluster import Cluster
from elastane.errors import ElastaneError
from elastane.jobs.states import State
from elastane.policies.contract import Policy
from elastane.service.cluster_record import Layout
from elastane.service.control.active_job import LiveJob
from elastane.service.control.type_sizes import slots_by_type
from elastane.service.messages import EventRecord
from elastane.service.run_kinds import kind_of
from elastane.service.store import JobRow, Store
from elastane.simcore.job_run import Arrival
from elastane.simcore.physics import Physics, core_share
from elastane.simcore.recorded import RecordedCommand, RecordedJob
from elastane.simcore.world import World

_RUNNING = (State.RUNNING.value, State.RESIZING.value)


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """One job's completion time, really and as simulated."""

    id: str
    name: str
    kind: str
    real_s: float
    simulated_s: float


def rehearse(store: Store, policy: Policy) -> list[Rehearsed]:
    """All jobs that have succeeded, once more, under this policy."""
    layout = Layout.of(store)
    rows = [row for row in store.jobs.ended(limit=100_000) if row.state is State.SUCCEEDED]
    if not rows:
        raise ElastaneError("no job has succeeded yet, so there is nothing to repeat")
    first_s = min(row.submitted_s for row in rows)
    lives = {row.id: _life(store.log.events(0, 100_000, job=row.id)) for row in rows}
    busy = _busy(list(lives.values()))
    arrivals = [_arrival(row, lives[row.id], first_s, layout, busy) for row in rows]
    physics = Physics(
        restart_s=0.0,
        first_start_s=0.0,
        interval_s=layout.interval_s,
        cores=layout.machines.total,
        min_run_s=layout.min_run_s,
    )
    world = World(Cluster.of(layout.nodes.values()), policy, arrivals, physics)
    world.run()
    done = {job: run.finish_s for job, run in world.jobs.items()}
    return [
        Rehearsed(
            row.id,
            row.name,
            kind_of(row).value,
            (row.ended_s or 0.0) - row.submitted_s,
            finish - row.submitted_s + first_s,
        )
        for row in sorted(rows, key=lambda row: row.number)
        if (finish := done.get(row.id)) is not None
    ]


@dataclass(frozen=True, slots=True)
class _Life:
    """When a job had how many workers, and when it really ran."""

    held: Sequence[tuple[float, int]]
    started_s: float
    running_s: float
    ended_s: float


def _life(events: Sequence[EventRecord]) -> _Life:
    steps = [event for event in events if event.kind == "state"]
    held = [(e.at_s, sum(e.body.get("workers", {}).values())) for e in steps]
    starting = next((e.at_s for e in steps if e.body["to"] == State.STARTING.value), steps[0].at_s)
    running = next((e.at_s for e in steps if e.body["to"] in _RUNNING), starting)
    return _Life(held, starting, running, steps[-1].at_s)


def _busy(lives: Sequence[_Life]) -> list[tuple[float, int]]:
    """(moment, slots in use from then on), over all jobs."""
    changes: dict[float, int] = {}
    for life in lives:
        before = 0
        for at_s, workers in life.held:
            changes[at_s] = changes.get(at_s, 0) + workers - before
            before = workers
    level, levels = 0, []
    for at_s in sorted(changes):
        level += changes[at_s]
        levels.append((at_s, level))
    return levels


def _full_speed_s(begin_s: float, end_s: float, busy: Sequence[tuple[float, int]], cores: int | None) -> float:
    """Seconds that the same work would have taken alone."""
    points = [(begin_s, 0), *((at, n) for at, n in busy if begin_s < at < end_s), (end_s, 0)]
    level = next((n for at, n in reversed(busy) if at <= begin_s), 0)
    total = 0.0
    for (a, count), (b, _) in pairwise(points):
        level = count if a != begin_s else level
        total += (b - a) * core_share(cores, level)
    return total


def _arrival(
    row: JobRow, life: _Life, first_s: float, layout: Layout, busy: Sequence[tuple[float, int]]
) -> Arrival:
    job = LiveJob.of(row)
    slots = slots_by_type(layout.nodes.values())
    model = job.learned.speed(*slots)
    behaviour: RecordedJob | RecordedCommand
    if row.kind == "adaptive" and model is not None:
        behaviour = RecordedJob(row.name, model, job.learned.done, job.learned.overhead)
    else:
        seconds = _full_speed_s(life.running_s, life.ended_s, busy, layout.machines.total)
        behaviour = RecordedCommand(row.name, max(seconds, 1e-3))
    return Arrival(
        id=row.id,
        submit_s=row.submitted_s - first_s,
        behaviour=behaviour,
        request=job.request(job.most(slots)),
        kind=kind_of(row),
        tenant=row.tenant,
        weight=job.spec.weight,
        priority=job.spec.priority,
        declared_work=behaviour.total_work if row.kind == "adaptive" else None,
        restart_s=job.learned.restart.estimate().mean if job.learned.restart.count else 0.0,
        resume_s=job.learned.start_s,
        staging_s=max(0.0, life.running_s - life.started_s),
    )
