"""Views made from views: listed in another order, with hidden facts replaced, with a plan applied, with a node gone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

from elastane.cluster import Batch, Grant, Node
from elastane.models.estimate import Estimate, Provenance
from elastane.models.speed import FloatArray, IntArray
from elastane.policies.view import Facts, Info, JobState, JobView, View, has

NAN = float("nan")


def through_json(memory: Any) -> Any:
    """Memory as it comes back from a store; raises where it is not made of JSON values."""
    return json.loads(json.dumps(memory, allow_nan=False))


def reordered(view: View, rng: Random) -> View:
    """The same view, its jobs, nodes and tenants listed in another order."""

    def shuffled(mapping: Mapping[str, Any]) -> dict[str, Any]:
        items = list(mapping.items())
        rng.shuffle(items)
        return dict(items)

    return replace(view, jobs=shuffled(view.jobs), nodes=shuffled(view.nodes), tenants=shuffled(view.tenants))


@dataclass(frozen=True)
class NonsenseSpeed:
    """A speed model that answers with one and the same number, usually no number at all."""

    rate: float = NAN
    source: Provenance = Provenance.PRIOR
    max_profiled: int = 7
    max_useful: int = 7

    def rates(self, nodes: IntArray, workers: IntArray, gpu_type: str = "") -> FloatArray:  # noqa: ARG002
        """The number, for every allocation."""
        return np.full(np.shape(workers), self.rate)

    def best_batch(self, nodes: int, workers: int, gpu_type: str = "") -> Batch | None:  # noqa: ARG002
        """Returns no batch at all."""
        return None


def scrambled(view: View, value: float = NAN) -> View:
    """The same view with ``value`` in place of every fact that is not visible."""
    jobs = {i: replace(job, facts=_scrambled_facts(job, view.visible, value)) for i, job in view.jobs.items()}
    changes: dict[str, Any] = {"jobs": jobs}
    if not has(view.visible, Info.HISTORY):
        changes["finished_service_gpu_s"] = (value,)
    if not has(view.visible, Info.PRICES):
        changes["nodes"] = {i: replace(node, price_per_gpu_h=value) for i, node in view.nodes.items()}
    return replace(view, **changes)


def _scrambled_facts(job: JobView, visible: Info, value: float) -> Facts:
    nonsense: dict[Info, dict[str, Any]] = {
        Info.REMAINING: {"remaining": Estimate(value)},
        Info.SPEED: {"speed": NonsenseSpeed(value)},
        Info.LOSSES: {"losses": ((value, value),)},
        Info.DEADLINE: {"deadline_s": value},
        Info.SKEW: {"skew": value},
    }
    facts = job.facts
    for info, change in nonsense.items():
        if not has(visible, info):
            facts = replace(facts, **change)
    return facts


def applied(view: View, grants: Mapping[str, Grant], memory: Any) -> View:
    """The view at the same instant after the plan has become reality."""
    jobs = {i: _changed(job, grants.get(i), view.now_s) for i, job in view.jobs.items()}
    return replace(view, jobs=jobs, memory=memory)


def _changed(job: JobView, grant: Grant | None, now_s: float) -> JobView:
    if grant == job.grant:
        return job
    old = job.ledger
    started = old.first_start_s is not None
    ledger = replace(
        old,
        as_of_s=now_s,
        gpus=grant.workers if grant else 0,
        service_gpu_s=old.service_at(now_s),
        held_s=old.held_at(now_s),
        first_start_s=old.first_start_s if started else now_s,
        last_change_s=now_s,
        restarts=old.restarts + (1 if grant and started else 0),
    )
    state = JobState.RUNNING if grant else JobState.SUSPENDED
    return replace(job, grant=grant, state=state, ledger=ledger)


def without_node(view: View, node: str) -> View:
    """The node is gone, but the jobs that stood on it still name it in their grants."""
    return replace(view, nodes={i: found for i, found in view.nodes.items() if i != node})


def with_nodes(view: View, nodes: Mapping[str, Node]) -> View:
    """The same jobs, none of them running, on other machines."""
    jobs = {i: _changed(job, None, view.now_s) for i, job in view.jobs.items()}
    return replace(view, jobs=jobs, nodes=dict(nodes))
