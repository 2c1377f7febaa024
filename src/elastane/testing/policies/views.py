"""Random but sane views: what a policy may meet, and nothing that could not be.

One builder serves both uses.  With a seeded ``random.Random`` it gives reproducible views; hypothesis passes a
generator of its own, whose choices it can shrink.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import hypothesis.strategies as st

from elastane.cluster import Grant, Node
from elastane.jobs.kinds import Kind
from elastane.models.estimate import Estimate, Provenance
from elastane.models.goodput import BatchLimits, GoodputModel
from elastane.models.throughput import ThroughputParams
from elastane.policies.view import (
    ELASTIC,
    Ability,
    Facts,
    Info,
    JobState,
    JobView,
    Ledger,
    Request,
    Tenant,
    View,
    masked,
)
from elastane.scheduling.abilities_by_kind import ABILITIES

TYPES = ("t4", "v100", "a100")
_TENANTS = {"default": Tenant(), "left": Tenant(weight=2.0), "right": Tenant(quota_gpus=4)}
_THETAS = (
    ThroughputParams(0.02, 0.0010, 0.05, 0.005, 0.010, 0.0010, 2.0),
    ThroughputParams(0.10, 0.0004, 0.30, 0.010, 0.050, 0.0050, 1.5),
    ThroughputParams(0.01, 0.0050, 0.02, 0.001, 0.005, 0.0005, 3.0),
)
"""Speeds of a small, a communicating and a computing model."""


def speed_model(number: int = 0, noise: float = 1000.0, seen: int = 4) -> GoodputModel:
    """An analytic job: one of three shapes, with this gradient noise, observed on up to ``seen`` workers."""
    limits = BatchLimits(initial=128, maximum=4096, per_gpu_min=32, per_gpu_max=512)
    return GoodputModel({"": _THETAS[number % len(_THETAS)]}, noise, limits, seen)


def random_view(
    rng: Random,
    info: Info = ~Info.NONE,
    *,
    jobs: int | None = None,
    nodes: int | None = None,
    rigid: bool = False,
    movable: bool = False,
) -> View:
    """A cluster with jobs that wait, run or are suspended; grants are whole and within capacity.

    ``rigid``: whoever runs has the workers it asked for.  ``movable``: every job can be moved.
    """
    machines = _nodes(rng, rng.randint(1, 5) if nodes is None else nodes)
    now_s = float(rng.randint(1, 100) * 60)
    builder = _Jobs(rng, machines, {node.id: node.gpus for node in machines}, now_s, rigid, movable)
    made = [builder.job(i) for i in range(rng.randint(0, 9) if jobs is None else jobs)]
    rng.shuffle(made)
    view = View(
        now_s=now_s,
        jobs={job.id: job for job in made},
        nodes={node.id: node for node in machines},
        tenants=_TENANTS,
        seed=rng.randint(0, 1000),
        finished_service_gpu_s=tuple(rng.uniform(10.0, 1e5) for _ in range(rng.randint(0, 4))),
    )
    return masked(view, info)


def views(info: Info = ~Info.NONE, *, rigid: bool = False, movable: bool = False) -> st.SearchStrategy[View]:
    """Sane views with only ``info`` visible, for hypothesis."""
    randoms = st.randoms(use_true_random=False)
    return randoms.map(lambda rng: random_view(rng, info, rigid=rigid, movable=movable))


def described(view: View) -> str:
    """A view in a few lines, for whoever has to understand a failure."""
    lines = [f"view at {view.now_s:g} s"]
    for node in view.nodes.values():
        lines.append(f"  {node.id}: {node.gpus} x {node.gpu_type}{', draining' if node.draining else ''}")
    for job in view.jobs.values():
        ask = job.request
        size = f"{ask.workers} in [{ask.min_workers}, {ask.max_workers}]"
        held = [f"{part.workers} on {part.node}" for part in job.grant.slices] if job.grant else ["nothing"]
        fixed = "" if ask.preemptible else ", not preemptible"
        rest = f"types {ask.types or 'any'}, nodes {ask.max_nodes or 'any'}{fixed}, {job.abilities.name}"
        lines.append(
            f"  {job.id} ({job.state.value}, since {job.submit_s:g} s): {size}; {rest}; holds {', '.join(held)}"
        )
    return "\n".join(lines)


def _nodes(rng: Random, number: int) -> list[Node]:
    """Equal machines, or a mixture of types and sizes of which one may be draining."""
    if rng.random() < 0.5:
        gpus = rng.choice((1, 2, 4, 8))
        made = [Node(f"n{i}", gpus) for i in range(number)]
    else:
        made = [Node(f"n{i}", rng.choice((1, 2, 4, 8)), rng.choice(TYPES)) for i in range(number)]
        if rng.random() < 0.3 and number > 1:
            made[0] = Node("n0", made[0].gpus, made[0].gpu_type, draining=True)
    rng.shuffle(made)
    return made


@dataclass
class _Jobs:
    """Makes jobs one after another and keeps count of the GPUs they hold."""

    rng: Random
    nodes: list[Node]
    free: dict[str, int]
    now_s: float
    rigid: bool
    movable: bool

    def job(self, number: int) -> JobView:
        rng = self.rng
        request, abilities = self._request()
        state = rng.choice(tuple(JobState))
        grant = self._grant(request) if state is JobState.RUNNING else None
        if state is JobState.RUNNING and grant is None:
            state = JobState.PENDING
        submit_s = float(rng.randint(0, int(self.now_s) // 60) * 60)
        return JobView(
            id=f"j{number}",
            submit_s=submit_s,
            request=request,
            tenant=rng.choice(tuple(_TENANTS)),
            weight=rng.choice((1.0, 1.0, 2.0)),
            priority=rng.choice((0, 0, 1)),
            abilities=abilities,
            state=state,
            grant=grant,
            ledger=self._ledger(state, grant, submit_s),
            restart_s=30.0,
            facts=self._facts(grant),
        )

    def _request(self) -> tuple[Request, Ability]:
        """Elastic, rigid, not preemptible, not suspendable or not movable; now and then too wide or too picky."""
        rng = self.rng
        workers = rng.choice((1, 1, 2, 3, 4, 8, 24))
        abilities = rng.choice(
            (ELASTIC, ELASTIC, ABILITIES[Kind.RIGID], ELASTIC & ~Ability.SUSPEND, ELASTIC & ~Ability.MIGRATE)
        )
        if self.movable:
            abilities |= Ability.MIGRATE
        elastic = bool(abilities & Ability.RESIZE)
        least, most = (rng.randint(1, workers), workers * rng.randint(1, 4)) if elastic else (workers, workers)
        types = (rng.choice((*TYPES, "none such")),) if rng.random() < 0.2 else ()
        limit = rng.randint(1, 2) if rng.random() < 0.2 else None
        preemptible = rng.random() < 0.8
        request = Request(workers, least, most, types=types, max_nodes=limit, preemptible=preemptible)
        return request, abilities

    def _grant(self, request: Request) -> Grant | None:
        """Some whole gang on one accelerator type, if there is room for one."""
        kind = self.rng.choice(request.types or TYPES)
        rooms = [node for node in self.nodes if node.gpu_type == kind and self.free[node.id]]
        rooms.sort(key=lambda node: -self.free[node.id])
        room = sum(self.free[node.id] for node in rooms[: request.max_nodes])
        least, most = request.min_workers, request.max_workers
        if self.rigid:
            least = most = request.workers
        most = min(most, room)
        if least > most:
            return None
        left = self.rng.randint(least, most)
        counts = []
        for node in rooms:
            if left <= 0:
                break
            part = min(self.free[node.id], left)
            counts.append((node.id, part))
            self.free[node.id] -= part
            left -= part
        return Grant.of(counts)

    def _ledger(self, state: JobState, grant: Grant | None, submit_s: float) -> Ledger:
        if state is JobState.PENDING:
            return Ledger(as_of_s=self.now_s)
        start_s = self.rng.uniform(submit_s, self.now_s)
        held_s = self.rng.uniform(0.0, self.now_s - start_s)
        service = held_s * self.rng.randint(1, 4)
        gpus = grant.workers if grant else 0
        return Ledger(self.now_s, gpus, service, held_s, start_s, start_s + held_s, self.rng.randint(0, 5))

    def _facts(self, grant: Grant | None) -> Facts:
        rng = self.rng
        known = rng.random() < (0.9 if grant else 0.5)
        seen = max(grant.workers if grant else 0, rng.randint(1, 8))
        remaining = Estimate(rng.uniform(1e3, 1e6), source=Provenance.DECLARED)
        return Facts(
            remaining=remaining if rng.random() < 0.8 else None,
            speed=speed_model(rng.randint(0, 2), rng.uniform(100.0, 5000.0), seen) if known else None,
            losses=((0.0, 5.0), (100.0, 2.0), (200.0, 1.5)) if rng.random() < 0.5 else (),
            deadline_s=self.now_s + rng.uniform(-100.0, 1e4) if rng.random() < 0.5 else None,
            skew=rng.random() if rng.random() < 0.5 else None,
        )
