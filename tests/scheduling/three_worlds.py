"""The simulator, the live control plane and the conformance world, led through the same states step by step.

A world states facts of its own wherever it keeps them itself: class, tenant, weight, priority, request, abilities,
deadline, what a job holds and all that its ledger says.  Three things are stated by one for all:

- What owners and admins do to live jobs (holds, pins and moves, quotas) and what the control plane makes of nodes that
  are away changes facts before there is a view; the other worlds have nobody who could do that.  They state what live
  states: who is in the view at all, ``request``, ``settled`` and a place that an owner chose (``Statement``).
- What is left of a job (``remaining``): each world learns that in its own way, so it is what the test says.
- An outage takes a node on which nobody stands: what becomes of processes there is physics.

``WORLD_SPECIFIC`` names what is not compared at all.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Protocol

import pytest

from elastane.cluster import Cluster, Grant, Node
from elastane.codec import encoded
from elastane.errors import ElastaneError
from elastane.jobs import parse_spec
from elastane.jobs.kinds import ONE_SIZE, JobClass, Kind
from elastane.jobs.states import State
from elastane.models.estimate import Estimate, Provenance
from elastane.policies.contract import Needs, Policy
from elastane.policies.plan import Exact, Plan
from elastane.policies.view import Info, JobView, Request, Tenant, View
from elastane.scheduling.changes import Change, Move, Resize, Start, changes
from elastane.scheduling.decide import Decision
from elastane.scheduling.facts import Evidence, JobFacts
from elastane.scheduling.views import job_view, view_of
from elastane.service.control import active_job
from elastane.service.control import apply as live
from elastane.service.store.rows import JobRow
from elastane.simcore import views as simulated_views
from elastane.simcore import world as simulator
from elastane.simcore.job_run import Arrival
from elastane.simcore.physics import Physics
from elastane.testing.engines.fake_work import Delays
from elastane.testing.policies import jobs as conformance_jobs
from elastane.testing.policies import world as conformance
from elastane.testing.policies.jobs import Trial
from helpers.fixed_job import FixedJob
from service.helpers import ANN
from service.helpers import World as LiveWorld

BEGIN_S, STEP_S = 1000.0, 10.0
LONG_S = 1e9
"""No job ends by itself."""
AT_ONCE = Delays(start_s=0.0, resize_s=0.0, leave_s=0.0, window_s=LONG_S)

WORLD_SPECIFIC: Mapping[str, str] = {
    "seed": "counts decisions, of which the control plane makes more: one whenever a place has become free",
    "trigger": "the control plane says who poked it, simulators which kind of event it was",
    "app": "the name of a live script; what a trace says; nothing",
    "restart_s": "what a change costs is learned live, and physics in a simulator",
    "ledger.as_of_s": "each brings ledgers up to date when it likes; what they come to now is compared",
    "speed": "learned by each in its own way; nothing here",
}
"""Fields of a view that are not compared, and why."""


@dataclass(frozen=True)
class Wish:
    """A job of a test, as its owner asks for it; ``remaining`` is what is known to be left of it."""

    kind: Kind
    least: int
    most: int
    gpus: int = 1
    types: tuple[str, ...] = ()
    klass: JobClass = JobClass.NORMAL
    tenant: str = "default"
    priority: int = 0
    weight: float = 1.0
    preemptible: bool = True
    deadline_in_s: float | None = None
    remaining: float | None = None

    @property
    def spec(self) -> dict[str, Any]:
        """As it is submitted."""
        sizes: Any = self.least if self.kind in ONE_SIZE else {"min": self.least, "max": self.most}
        deadline = {} if self.deadline_in_s is None else {"deadline": f"{self.deadline_in_s:g}s"}
        return {
            "kind": self.kind.value,
            "workers": sizes,
            "resources": {"gpus": self.gpus},
            "accelerators": list(self.types),
            "class": self.klass.value,
            "priority": self.priority,
            "weight": self.weight,
            "preemptible": self.preemptible,
            **deadline,
        }

    def request(self, slots: Mapping[str, int]) -> Request:
        """As the live system reads it: the most is what the cluster could ever give, of one accelerator type."""
        room = max(count for kind, count in slots.items() if not self.types or kind in self.types)
        most = max(self.least, min(self.most, room // self.gpus))
        return Request(
            self.least,
            self.least,
            self.least if self.kind in ONE_SIZE else most,
            worker=parse_spec({"command": "x", **self.spec}).worker,
            types=self.types,
            preemptible=self.preemptible,
        )

    @property
    def deadline_s(self) -> float | None:
        """On the clock of the test."""
        return None if self.deadline_in_s is None else BEGIN_S + self.deadline_in_s


@dataclass(frozen=True)
class Known:
    """Evidence whose remaining work is what the test says; the deadline is what its world says."""

    own: Evidence
    left: float | None

    def remaining(self) -> Estimate | None:
        return None if self.left is None else Estimate(self.left, source=Provenance.DECLARED)

    def deadline_s(self) -> float | None:
        return self.own.deadline_s()

    def declared_s(self) -> float | None:
        return None

    def speed(self) -> None:
        return None

    def losses(self) -> Sequence[tuple[float, float]]:
        return ()

    def skew(self) -> float | None:
        return None


@dataclass(frozen=True)
class Led(Policy):
    """Decides by a hash of what it sees, or (``fixed``) as it is told; by None, that everything stays as it is."""

    thinks: Callable[[View], Plan]
    ends: bool = False
    fixed: list[Plan | None] = field(default_factory=list)

    name: ClassVar[str] = "led"
    title: ClassVar[str] = "Led by what it sees"
    paper: ClassVar[str] = ""
    needs: ClassVar[Needs] = Needs(
        info=Info.REMAINING | Info.DEADLINE | Info.HISTORY, period_s=STEP_S, on_arrival=False, on_finish=False
    )

    @property
    def ends_jobs(self) -> bool:
        return self.ends

    def decide(self, view: View) -> Plan:
        if not self.fixed:
            return self.thinks(view)
        if self.fixed[-1] is None:
            raise ElastaneError("nothing is to change now")
        return self.fixed[-1]

    def label(self) -> str:
        return "led"


def comparable(view: View) -> dict[str, Any]:
    """Everything a view says but what is ``WORLD_SPECIFIC``, as JSON values."""
    return {
        "now_s": view.now_s,
        "nodes": {name: encoded(view.nodes[name]) for name in sorted(view.nodes)},
        "missing": list(view.missing),
        "tenants": {name: encoded(view.tenants[name]) for name in sorted(view.tenants)},
        "memory": view.memory,
        "history": list(view.history),
        "min_run_s": view.min_run_s,
        "jobs": {job: _comparable_job(seen, view.now_s) for job, seen in view.jobs.items()},
        "order": list(view.jobs),
    }


def _comparable_job(job: JobView, now_s: float) -> dict[str, Any]:
    ledger = job.ledger
    return {
        "submit_s": job.submit_s,
        "request": encoded(job.request),
        "tenant": job.tenant,
        "klass": job.klass,
        "weight": job.weight,
        "priority": job.priority,
        "abilities": job.abilities.value,
        "state": job.state.value,
        "grant": encoded(job.grant),
        "ledger": {
            "gpus": ledger.gpus,
            "service_gpu_s": round(ledger.service_at(now_s), 6),
            "held_s": round(ledger.held_at(now_s), 6),
            "first_start_s": ledger.first_start_s,
            "last_change_s": ledger.last_change_s,
            "restarts": ledger.restarts,
            "since_s": ledger.since_s,
        },
        "remaining": encoded(job.remaining),
        "declared_s": job.declared_s,
        "deadline_s": job.deadline_s,
    }


def random_of(view: View) -> Random:
    """Chance that depends on what is seen, and on nothing else."""
    said = json.dumps(comparable(view), sort_keys=True).encode()
    return Random(int.from_bytes(hashlib.sha256(said).digest()[:8]))


@dataclass(frozen=True)
class Statement:
    """What one world states for all: see above."""

    there: frozenset[str]
    tenants: Mapping[str, Tenant]
    adjusted: Mapping[str, JobFacts]
    """Of jobs whose facts were changed: request, settled, and the place that an owner chose."""


@dataclass(frozen=True)
class Step:
    """What one world saw and decided, the changes, and how things are afterwards."""

    view: Mapping[str, Any]
    grants: Mapping[str, Grant]
    waiting: Mapping[str, str]
    changes: tuple[Change, ...]
    held: Mapping[str, Mapping[str, int] | None]
    gone: Mapping[str, str]
    classes: Mapping[str, str]


class AnyWorld(Protocol):
    """One of the two that hear what live jobs' owners did."""

    def step(self, said: Statement) -> Step:
        """Have it decide once."""
        ...

    def drop(self, job: str) -> None:
        """The owner of a job put it on hold: it gives up all it holds."""
        ...

    def outage(self, node: str | None) -> None:
        """From now on exactly this node is away."""
        ...


Seen = list[tuple[Decision, tuple[Change, ...]]]


@contextmanager
def watched(module: object) -> Iterator[Seen]:
    """Everything that a world asks the kernel to make changes of."""
    seen: Seen = []

    def noted(present: Mapping[str, Grant | None], decision: Decision) -> tuple[Change, ...]:
        found = changes(present, decision)
        seen.append((decision, found))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "changes", noted)
        yield seen


@contextmanager
def stating(
    said: Statement, lengths: Mapping[str, float | None], jobs: object, views: object
) -> Iterator[None]:
    """A world's facts as ``said``; everything else is its own."""

    def seen(own: JobFacts, info: Info) -> JobView:
        known = replace(own, evidence=Known(own.evidence, lengths[own.id]))
        told = said.adjusted.get(own.id)
        if told is not None:
            known = replace(known, request=told.request, settled=told.settled, grant=told.grant)
        return job_view(known, info)

    def whole(situation: Any, found: Mapping[str, JobView], info: Info) -> View:
        there = {job: view for job, view in found.items() if job in said.there}
        return view_of(replace(situation, tenants=said.tenants), there, info)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "job_view", seen)
        patch.setattr(views, "view_of", whole)
        yield


def places(grant: Grant | None) -> Mapping[str, int] | None:
    """Workers by node; None for nothing."""
    return {part.node: part.workers for part in grant.slices} if grant is not None else None


NOTHING = Plan(Exact({}))


class Simulated:
    """The event core."""

    def __init__(self, setting: Setting) -> None:
        self._lengths, self._policy = setting.lengths, setting.policy()
        arrivals = [
            Arrival(
                name,
                BEGIN_S,
                FixedJob(LONG_S, wish.least, linear=True),
                wish.request(setting.slots),
                wish.kind,
                tenant=wish.tenant,
                klass=wish.klass.value,
                weight=wish.weight,
                priority=wish.priority,
                deadline_s=wish.deadline_s,
            )
            for name, wish in setting.named
        ]
        physics = Physics(restart_s=0.0, min_run_s=setting.min_run_s)
        self._world = simulator.World(Cluster.of(setting.nodes), self._policy, arrivals, physics)
        self._policy.fixed[:] = [NOTHING]
        self._now_s = BEGIN_S
        self._world.run(self._now_s)
        self._policy.fixed.clear()
        self._away: str | None = None

    def step(self, said: Statement) -> Step:
        self._now_s += STEP_S
        told = stating(said, self._lengths, simulated_views, simulated_views)
        with watched(simulator) as seen, told:
            self._world.run(self._now_s)
        active = self._world.active
        return made(
            seen,
            {job: places(run.grant) for job, run in active.items()},
            self._world.rejected,
            {job: run.klass for job, run in active.items()},
        )

    def drop(self, job: str) -> None:
        self._world._change(self._world.active[job], None)

    def outage(self, node: str | None) -> None:
        for name, down in ((self._away, False), (node, True)):
            if name is not None:
                self._world._outage(name, down)
        self._away = node


class Small:
    """The world in which policies are tested for conformance."""

    def __init__(self, setting: Setting) -> None:
        self._lengths, self._policy = setting.lengths, setting.policy()
        trials = [
            Trial(
                name,
                BEGIN_S,
                LONG_S,
                wish.request(setting.slots),
                wish.kind,
                tenant=wish.tenant,
                klass=wish.klass,
                weight=wish.weight,
                priority=wish.priority,
                deadline_s=wish.deadline_s,
            )
            for name, wish in setting.named
        ]
        self._world = conformance.World(self._policy, setting.nodes, trials, min_run_s=setting.min_run_s)
        self._decisions = self._world.run(LONG_S)
        self._policy.fixed[:] = [NOTHING]
        next(self._decisions)
        self._policy.fixed.clear()

    def step(self, said: Statement) -> Step:
        with watched(conformance) as seen, stating(said, self._lengths, conformance_jobs, conformance):
            next(self._decisions)
        jobs = self._world.jobs
        return made(
            seen,
            {job: places(run.grant) for job, run in jobs.items()},
            self._world.turned_away,
            {job: run.klass.value for job, run in jobs.items()},
        )

    def drop(self, job: str) -> None:
        self._world.jobs[job].change(None, self._world.now_s)

    def outage(self, node: str | None) -> None:
        self._world._outages = [(node, 0.0, LONG_S)] if node is not None else []


class Live:
    """The control plane over a fake engine that does everything at once."""

    def __init__(self, home: Path, setting: Setting, stated: Mapping[str, JobFacts]) -> None:
        self._policy, self._stated = setting.policy(), stated
        self.world = LiveWorld(
            home,
            machines=setting.nodes,
            delays=AT_ONCE,
            interval_s=LONG_S,
            min_run_s=setting.min_run_s,
        )
        assert self.world.clock.now_s == BEGIN_S
        self.world.plane.decisions.use_policy(self._policy)
        self._jobs = [
            self.world.submit(**wish.spec, tenant=wish.tenant, samples=LONG_S, slots=wish.gpus)
            for wish in setting.wishes
        ]
        self._setting, self._away, self._dropped = setting, "", list[str]()
        self._policy.fixed[:] = [NOTHING]
        self.world.round()

    # What people do.

    def act(self, rng: Random, worlds: Sequence[AnyWorld]) -> set[str]:
        """Perhaps owners, an admin or a node do something; returns what was done.  What is refused has not happened."""
        done = set[str]()
        for act in (self._hold, self._resume, self._scale, self._move, self._set_quota):
            if rng.random() < 0.15 and self.world.plane.live:
                with suppress(ElastaneError):
                    act(rng, rng.choice(sorted(self.world.plane.live)))
                    done.add(act.__name__)
        self._go_on([None])
        for world in worlds:
            for job in self._dropped:
                world.drop(job)
        self._dropped.clear()
        if rng.random() < 0.3:
            self._outage(rng, worlds)
        return done | ({"_outage"} if self._away else set())

    def _hold(self, rng: Random, job: str) -> None:
        held = self.world.plane.live[job].row.grant is not None
        self.world.service.suspend(ANN, job)
        if held:
            self._dropped.append(job)

    def _resume(self, rng: Random, job: str) -> None:
        for each in sorted(self.world.plane.live):
            self.world.service.resume(ANN, each)
        assert job

    def _scale(self, rng: Random, job: str) -> None:
        self.world.service.scale(ANN, job, rng.choice((None, 1, 2, 3, 4, 6)))

    def _move(self, rng: Random, job: str) -> None:
        self.world.service.move(ANN, job, rng.choice(self._setting.nodes).id)

    def _set_quota(self, rng: Random, job: str) -> None:
        tenant = self.world.plane.live[job].row.tenant
        slots = rng.choice((None, 0, 1, 2, 4, 8))
        self.world.service.set_quota(ANN, tenant, slots, rng.choice((1.0, 2.0)), rng.random() < 0.5)

    def _outage(self, rng: Random, worlds: Sequence[AnyWorld]) -> None:
        """The node that is away comes back, or one on which nobody stands or wants to be goes."""
        there = self.world.plane.live.values()
        used = {node for job in there for node in (*job.places, *(places(job.row.grant) or {}))}
        if self._away:
            self.world.engine.bring_back(self._away)
            self._away = ""
        elif empty := [node.id for node in self._setting.nodes if node.id not in used]:
            self._away = rng.choice(empty)
            self.world.engine.lose_node(self._away)
        for world in worlds:
            world.outage(self._away or None)

    # What it decides.

    def step(self) -> tuple[Step, Statement, bool]:
        """What it made of a moment, what it stated, and whether all of that could be brought about."""
        w = self.world
        w.clock.now_s += STEP_S
        self._policy.fixed.clear()
        before = {job: there.row for job, there in w.plane.live.items()}
        with watched(live) as seen:
            w.plane.poke("step")
            w.round()
            decision = seen[0][0]
            said = self._statement(decision.view, before)
            # Asked again, because a place has become free, it stands by what it said when nothing had moved.
            self._go_on([replace(decision.plan, intent=Exact(dict(decision.grants)))])
        whole = not self._stuck(seen[0]) and not self._let_in(decision.view)
        active = w.plane.live
        for job, there in active.items():
            assert (places(there.row.grant) or {}) == w.engine.workers_of(job), "the engine does otherwise"
        step = made(
            seen,
            {job: places(there.row.grant) for job, there in active.items()},
            {job: w.row(job).reason for job in self._jobs if w.state(job) is State.REJECTED},
            {job: there.klass.value for job, there in active.items()},
        )
        return step, said, whole

    def _statement(self, view: View, before: Mapping[str, JobRow]) -> Statement:
        """What the others have to be told: facts that owners, quotas or missing nodes have changed, and no others."""
        adjusted = {}
        limited = {name for name, tenant in view.tenants.items() if tenant.quota_gpus is not None}
        for job, seen in view.jobs.items():
            told, row = self._stated[job], before[job]
            same = told.request == self._setting.request_of(job) and not told.settled
            if same and told.grant == row.grant:
                continue
            pinned = row.pinned_workers is not None or row.pinned_node is not None
            assert pinned or seen.tenant in limited or view.missing, (
                f"{job} is stated otherwise for no reason: {told}"
            )
            adjusted[job] = told
        return Statement(frozenset(view.jobs), view.tenants, adjusted)

    def _go_on(self, plans: list[Plan | None]) -> None:
        """Rounds under one plan, until it asks for nothing more."""
        self._policy.fixed[:] = plans
        for _ in range(20):
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

    def _let_in(self, first: View) -> set[str]:
        """Jobs that were not in the view, and have come to the place that their owners chose once it was free."""
        there = self.world.plane.live.values()
        late = {job.id for job in there if job.row.grant is not None and job.id not in first.jobs}
        assert all(self.world.plane.live[job].row.pinned_node for job in late)
        return late

    def _is_settled(self) -> bool:
        still = {State.QUEUED, State.RUNNING, State.SUSPENDED}
        return all(job.row.state in still for job in self.world.plane.live.values())


def made(
    seen: Seen,
    held: Mapping[str, Mapping[str, int] | None],
    gone: Mapping[str, str],
    classes: Mapping[str, str],
) -> Step:
    """The first decision of a step: later ones only bring about what has to wait for places to become free."""
    decision, found = seen[0]
    return Step(
        comparable(decision.view),
        dict(decision.grants),
        dict(decision.waiting),
        found,
        held,
        dict(gone),
        classes,
    )


@dataclass(frozen=True)
class Setting:
    """Jobs on nodes under a policy, the same for all worlds; ``lengths``: what is left of each, as the test goes on."""

    wishes: Sequence[Wish]
    nodes: Sequence[Node]
    thinks: Callable[[View], Plan]
    ends: bool = False
    min_run_s: float = 0.0
    lengths: dict[str, float | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lengths.update((name, wish.remaining) for name, wish in self.named)

    @property
    def slots(self) -> Mapping[str, int]:
        slots = Counter[str]()
        for node in self.nodes:
            slots[node.gpu_type] += node.gpus
        return slots

    @property
    def named(self) -> list[tuple[str, Wish]]:
        """Jobs with the names that the live system gives them."""
        return [(f"j{number}", wish) for number, wish in enumerate(self.wishes, 1)]

    def request_of(self, job: str) -> Request:
        return dict(self.named)[job].request(self.slots)

    def policy(self) -> Led:
        return Led(self.thinks, self.ends)


@contextmanager
def noted(lengths: Mapping[str, float | None]) -> Iterator[Mapping[str, JobFacts]]:
    """The facts of which views of live jobs are made, the latest of each."""
    stated: dict[str, JobFacts] = {}

    def seen(own: JobFacts, info: Info) -> JobView:
        stated[own.id] = own
        return job_view(replace(own, evidence=Known(own.evidence, lengths[own.id])), info)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(active_job, "job_view", seen)
        yield stated


@contextmanager
def three(home: Path, setting: Setting) -> Iterator[tuple[Simulated, Small, Live]]:
    """All of them, with the same jobs on the same nodes, before the first step."""
    with noted(setting.lengths) as stated:
        control_plane = Live(home, setting, stated)
        try:
            yield Simulated(setting), Small(setting), control_plane
        finally:
            control_plane.world.end()
