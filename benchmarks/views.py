"""Views of crowded clusters, for measuring decisions without a simulation around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from elastane.cluster import Cluster, Node
from elastane.models.catalog import catalog
from elastane.models.estimate import Estimate
from elastane.models.goodput import GoodputModel
from elastane.models.throughput import ThroughputParams
from elastane.policies.contract import Policy
from elastane.policies.lowering import lower
from elastane.policies.pollux import Pollux
from elastane.policies.view import Facts, Info, JobState, JobView, Ledger, Request, View


def crowded_view(
    jobs: int, gpus: int, seed: int = 0, per_node: int = 8, types: Sequence[str] = ("t4",)
) -> View:
    """Jobs of all catalog applications at all ages, each with a fitted-looking model of its own.

    Of several accelerator types there are equally many nodes, and a job knows some of them, one at least.
    """
    rng = np.random.default_rng(seed)
    cluster = _cluster(max(gpus // per_node, 1), per_node, types)
    apps = list(catalog().values())
    views = {}
    for number in range(jobs):
        app = apps[rng.integers(len(apps))]
        known = types if len(types) == 1 else rng.permutation(types)[: rng.integers(1, len(types) + 1)].tolist()
        limits = app.limits(tuple(types))
        model = GoodputModel(
            params={kind: _fitted(app.params[kind], rng) for kind in known},
            noise=app.noise_at(float(rng.random())),
            limits=limits,
            max_profiled=int(rng.choice([1, 1, 2, 2, 4, 8, 16])),
        )
        name = f"job-{number:05d}"
        views[name] = JobView(
            id=name,
            submit_s=float(rng.uniform(0, 5e4)),
            request=Request(max_workers=limits.max_workers),
            state=JobState.PENDING,
            ledger=Ledger(restarts=int(rng.integers(0, 6)), service_gpu_s=float(rng.exponential(1e4))),
            restart_s=30.0,
            facts=Facts(speed=model),
            visible=Info.SPEED,
        )
    return View(now_s=60_000.0, jobs=views, nodes=cluster.nodes, visible=Info.SPEED)


def _cluster(nodes: int, per_node: int, types: Sequence[str]) -> Cluster:
    if len(types) == 1:
        return Cluster.uniform(nodes, per_node, types[0])
    return Cluster.of(Node(f"n{i:05d}", per_node, types[i % len(types)]) for i in range(nodes))


def _fitted(params: ThroughputParams[float], rng: np.random.Generator) -> ThroughputParams[float]:
    theta = np.array(params) * np.exp(rng.normal(0, 0.05, 7))
    theta[6] = np.clip(theta[6], 1.0, 10.0)
    return ThroughputParams(*theta.tolist())


def with_work(view: View, info: Info, seed: int = 1) -> View:
    """The same jobs with declared work of all magnitudes, visible to a policy that reads ``info``."""
    rng = np.random.default_rng(seed)
    jobs = {
        i: replace(
            job, visible=info, facts=replace(job.facts, remaining=Estimate(float(10.0 ** rng.uniform(4, 8))))
        )
        for i, job in view.jobs.items()
    }
    return replace(view, jobs=jobs, visible=info)


def settled(view: View, policy: Policy | None = None) -> View:
    """The view one round later, after the first plan was applied: what most rounds look like."""
    plan = (policy or Pollux()).decide(view)
    grants = lower(plan, view).grants
    jobs = {
        i: replace(job, grant=grants.get(i), state=JobState.RUNNING if i in grants else job.state)
        for i, job in view.jobs.items()
    }
    return replace(view, now_s=view.now_s + 60.0, jobs=jobs, memory=plan.memory)
