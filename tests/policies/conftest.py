"""Hand-made schedules: jobs of fixed length run through the real event core, and when each of them ran."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings

from elastane.cluster import Cluster
from elastane.jobs.kinds import Kind
from elastane.policies.contract import Policy
from elastane.policies.plan import Plan
from elastane.policies.registry import make_policy
from elastane.policies.view import Request, Tenant, View
from elastane.resources import Resources
from elastane.scheduling.decide import Decision
from elastane.simcore.job_run import Arrival
from elastane.simcore.physics import Physics
from elastane.simcore.world import Outage, World
from helpers.fixed_job import FixedJob

# Property tests judge results, not speed: a busy machine must not turn them red.
settings.register_profile("elastane", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("elastane")

ONE_GPU = Resources(gpus=1.0)
MOVES_ARE_FREE = Physics(restart_s=0.0)


@dataclass
class Schedule:
    """What happened: every decision, and the times during which each job held its workers."""

    world: World
    decisions: list[tuple[View, Plan, Decision]] = field(default_factory=list)

    @property
    def runs(self) -> dict[str, list[tuple[float, float]]]:
        """(start, end) of each stretch, merged where one follows the other at once."""
        return {job_id: _merged(run.spans) for job_id, run in self.world.jobs.items()}

    @property
    def starts(self) -> dict[str, float | None]:
        return {job_id: run.first_start_s for job_id, run in self.world.jobs.items()}

    @property
    def finishes(self) -> list[float | None]:
        """In the order of the names."""
        return [run.finish_s for _, run in sorted(self.world.jobs.items())]

    @property
    def first(self) -> tuple[View, Plan, Decision]:
        return self.decisions[0]

    def at(self, when_s: float) -> tuple[View, Plan, Decision]:
        """The last decision made at that time."""
        return [entry for entry in self.decisions if abs(entry[2].now_s - when_s) < 1e-6][-1]


def _merged(spans: Sequence) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for span in spans:
        start, end = round(span.start_s, 4), round(span.end_s, 4)
        if merged and merged[-1][1] == start:
            start = merged.pop()[0]
        merged.append((start, end))
    return merged


@pytest.fixture
def job() -> Callable[..., Arrival]:
    """``job("J1", 3, 10)``: three GPUs for ten seconds; the estimate is exact unless given, or absent if None."""

    def make(
        name: str,
        gpus: int,
        seconds: float,
        at: float = 0.0,
        *,
        estimate: float | None = -1.0,
        worker: Resources = ONE_GPU,
        kind: Kind = Kind.RIGID,
        preemptible: bool = True,
        max_nodes: int | None = None,
        **arrival: object,
    ) -> Arrival:
        request = Request(
            workers=gpus, max_workers=gpus, worker=worker, preemptible=preemptible, max_nodes=max_nodes
        )
        declared = seconds if estimate == -1.0 else estimate
        return Arrival(
            name,
            at,
            FixedJob(seconds, gpus),
            request,
            kind,
            declared_work=declared,
            **arrival,  # type: ignore[arg-type]
        )

    return make


@pytest.fixture
def schedule() -> Callable[..., Schedule]:
    """Runs jobs under a policy (an object, or as users write it) on GPUs of one node or on a cluster."""

    def run(
        policy: Policy | str,
        jobs: Sequence[Arrival],
        gpus: int = 4,
        *,
        cluster: Cluster | None = None,
        physics: Physics = MOVES_ARE_FREE,
        outages: Sequence[Outage] = (),
        tenants: dict[str, Tenant] | None = None,
        until_s: float = 1e6,
    ) -> Schedule:
        chosen = make_policy(policy) if isinstance(policy, str) else policy
        decisions: list[tuple[View, Plan, Decision]] = []
        world = World(
            cluster or Cluster.uniform(1, gpus),
            chosen,
            jobs,
            physics,
            outages=outages,
            tenants=tenants,
            on_decision=lambda made: decisions.append((made.view, made.plan, made)),
        )
        world.run(until_s)
        return Schedule(world, decisions)

    return run
