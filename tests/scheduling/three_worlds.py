"""The simulator, the live control plane and the conformance world, led through the same plans step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Protocol

import pytest

from elastane.cluster import Cluster, Grant, Node
from elastane.jobs.kinds import ONE_SIZE, Kind
from elastane.jobs.states import State
from elastane.policies.contract import Needs, Policy
from elastane.policies.plan import Exact, Plan
from elastane.policies.view import Request, View
from elastane.scheduling.changes import Change, Move, Resize, Start, changes
from elastane.scheduling.decide import Decision
from elastane.service.control import apply as live
from elastane.simcore import world as simulator
from elastane.simcore.job_run import Arrival
from elastane.simcore.physics import Physics
from elastane.testing.engines.fake_work import Delays
from elastane.testing.policies import world as conformance
from elastane.testing.policies.jobs import Trial
from helpers.fixed_job import FixedJob
from service.helpers import World as LiveWorld

STEP_S = 10.0
LONG_S = 1e9
"""No job ends by itself."""
AT_ONCE = Delays(start_s=0.0, resize_s=0.0, leave_s=0.0, window_s=LONG_S)


@dataclass(frozen=True)
class Wish:
    """A job of a test, as its owner asks for it."""

    kind: Kind
    least: int
    most: int

    def request(self, slots: int) -> Request:
        """As the live system reads it: the most is what the cluster could ever give."""
        most = self.least if self.kind in ONE_SIZE else max(self.least, min(self.most, slots))
        return Request(self.least, self.least, most)


@dataclass(frozen=True)
class Led(Policy):
    """Answers whatever it is led to answer at that moment."""

    plan: list[Plan] = field(default_factory=list)
    ends: bool = False

    name: ClassVar[str] = "led"
    title: ClassVar[str] = "Led by a test"
    paper: ClassVar[str] = ""
    needs: ClassVar[Needs] = Needs(period_s=STEP_S, on_arrival=False, on_finish=False)

    @property
    def ends_jobs(self) -> bool:
        return self.ends

    def decide(self, view: View) -> Plan:
        return self.plan[-1]

    def label(self) -> str:
        return "led"


@dataclass(frozen=True)
class Step:
    """What a plan came to in one world: the decision, the changes, and how things are afterwards."""

    grants: Mapping[str, Grant]
    waiting: Mapping[str, str]
    changes: tuple[Change, ...]
    held: Mapping[str, Mapping[str, int] | None]
    gone: Mapping[str, str]
    classes: Mapping[str, str]


class AnyWorld(Protocol):
    """One of the three."""

    def step(self, plan: Plan) -> Step:
        """Have it decide once by this plan."""
        ...


@contextmanager
def watched(module: object) -> Iterator[list[tuple[Decision, tuple[Change, ...]]]]:
    """Everything that a world asks the kernel to make changes of."""
    seen: list[tuple[Decision, tuple[Change, ...]]] = []

    def noted(present: Mapping[str, Grant | None], decision: Decision) -> tuple[Change, ...]:
        found = changes(present, decision)
        seen.append((decision, found))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "changes", noted)
        yield seen


def places(grant: Grant | None) -> Mapping[str, int] | None:
    """Workers by node; None for nothing."""
    return {part.node: part.workers for part in grant.slices} if grant is not None else None


class Simulated:
    """The event core."""

    def __init__(self, wishes: Sequence[Wish], nodes: Sequence[Node], ends: bool) -> None:
        self._policy = Led(ends=ends)
        slots = sum(node.gpus for node in nodes)
        arrivals = [
            Arrival(name, 0.0, FixedJob(LONG_S, wish.least, linear=True), wish.request(slots), wish.kind)
            for name, wish in named(wishes)
        ]
        self._world = simulator.World(Cluster.of(nodes), self._policy, arrivals, Physics(restart_s=0.0))
        self._now_s = 0.0

    def step(self, plan: Plan) -> Step:
        self._policy.plan[:] = [plan]
        self._now_s += STEP_S
        with watched(simulator) as seen:
            self._world.run(self._now_s)
        active = self._world.active
        return made(
            seen,
            {job: places(run.grant) for job, run in active.items()},
            self._world.rejected,
            {job: run.klass for job, run in active.items()},
        )


class Small:
    """The world in which policies are tested for conformance."""

    def __init__(self, wishes: Sequence[Wish], nodes: Sequence[Node], ends: bool) -> None:
        self._policy = Led(ends=ends)
        slots = sum(node.gpus for node in nodes)
        trials = [Trial(name, 0.0, LONG_S, wish.request(slots), wish.kind) for name, wish in named(wishes)]
        self._world = conformance.World(self._policy, nodes, trials)
        self._decisions = self._world.run(LONG_S)

    def step(self, plan: Plan) -> Step:
        self._policy.plan[:] = [plan]
        with watched(conformance) as seen:
            next(self._decisions)
        jobs = self._world.jobs
        return made(
            seen,
            {job: places(run.grant) for job, run in jobs.items()},
            self._world.turned_away,
            {job: run.klass.value for job, run in jobs.items()},
        )


class Live:
    """The control plane over a fake engine that does everything at once."""

    def __init__(self, home: Path, wishes: Sequence[Wish], nodes: Sequence[Node], ends: bool) -> None:
        self._policy = Led(ends=ends)
        self.world = LiveWorld(
            home,
            nodes=len(nodes),
            slots=nodes[0].gpus,
            delays=AT_ONCE,
            interval_s=LONG_S,
            min_run_s=0.0,
        )
        self.world.plane.decisions.use_policy(self._policy)
        self._policy.plan[:] = [Plan(Exact({}))]
        self._jobs = [self.world.submit(**spec_of(wish)) for wish in wishes]
        self.world.round()

    def step(self, plan: Plan) -> Step:
        with watched(live) as seen:
            self._follow(plan, most=1)
            # Asked again, because a place has become free, it stands by what it said when nothing had moved.
            decided = replace(plan, intent=Exact(dict(seen[0][0].grants)))
            self._follow(decided)
            if stuck := self._stuck(seen[0]):
                others = {job: grant for job, grant in seen[0][0].grants.items() if job not in stuck}
                self._follow(replace(plan, intent=Exact(others)))
                self._follow(decided)
        w = self.world
        active = w.plane.live
        for job, there in active.items():
            assert (places(there.row.grant) or {}) == w.engine.workers_of(job), "the engine does otherwise"
        return made(
            seen,
            {job: places(there.row.grant) for job, there in active.items()},
            {job: w.row(job).reason for job in self._jobs if w.state(job) is State.REJECTED},
            {job: there.klass.value for job, there in active.items()},
        )

    def _follow(self, plan: Plan, most: int = 20) -> None:
        """Rounds under one plan, until it asks for nothing more."""
        self._policy.plan[:] = [plan]
        self.world.plane.poke("step")
        for _ in range(most):
            self.world.round()
            if self._is_settled() and not self.world.plane.wakeup.trigger:
                break

    def _stuck(self, first: tuple[Decision, tuple[Change, ...]]) -> set[str]:
        """Jobs that wait for each other's places: live a move takes both, the old and the new, until it is complete.

        Nobody is stuck who does not move or grow while it runs.
        """
        decision, found = first
        there = self.world.plane.live
        stuck = {job for job, grant in decision.grants.items() if places(there[job].row.grant) != places(grant)}
        assert stuck <= {change.job for change in found if isinstance(change, Move | Resize | Start)}
        assert not stuck or any(isinstance(change, Move | Resize) for change in found if change.job in stuck)
        return stuck

    def _is_settled(self) -> bool:
        still = {State.QUEUED, State.RUNNING, State.SUSPENDED}
        return all(job.row.state in still for job in self.world.plane.live.values())


def made(
    seen: Sequence[tuple[Decision, tuple[Change, ...]]],
    held: Mapping[str, Mapping[str, int] | None],
    gone: Mapping[str, str],
    classes: Mapping[str, str],
) -> Step:
    """The first decision of a step: later ones only bring about what has to wait for places to become free."""
    decision, found = seen[0]
    return Step(dict(decision.grants), dict(decision.waiting), found, held, dict(gone), classes)


def named(wishes: Sequence[Wish]) -> list[tuple[str, Wish]]:
    """Jobs with the names that the live system would give them."""
    return [(f"j{number}", wish) for number, wish in enumerate(wishes, 1)]


def spec_of(wish: Wish) -> dict[str, object]:
    if wish.kind in ONE_SIZE:
        return {"kind": wish.kind.value, "workers": wish.least, "samples": LONG_S}
    return {"kind": wish.kind.value, "workers": {"min": wish.least, "max": wish.most}, "samples": LONG_S}


@contextmanager
def three(home: Path, wishes: Sequence[Wish], nodes: Sequence[Node], ends: bool) -> Iterator[list[AnyWorld]]:
    """All of them, with the same jobs on the same nodes, before the first step."""
    control_plane = Live(home, wishes, nodes, ends)
    try:
        yield [Simulated(wishes, nodes, ends), Small(wishes, nodes, ends), control_plane]
    finally:
        control_plane.world.end()
