"""Gathers the inputs of one decision: a problem per accelerator type, the job estimates, and state for the memory.

On a mixed cluster work is counted in seconds of a *mean GPU*: the speed of k mean GPUs is the mean of the speeds of k
GPUs of each type the job may use, weighted by how many of them there are.  So a fair share is a part 1/J of every type,
and the price of work means the same whatever a job holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from elastane.models.goodput import GoodputModel
from elastane.models.speed import FloatArray, IntArray
from elastane.policies.allocation.multi_type import Parts, connected, part_of
from elastane.policies.allocation.problem import Frame, build_problem, frame_of, reach_of
from elastane.policies.elastane.job_estimates import (
    Belief,
    JobEstimates,
    cautious,
    look,
    outlook_of,
    sizes_up_to,
    speedups_of,
)
from elastane.policies.elastane.multi_node_gain import Experience
from elastane.policies.elastane.type_exchange_rates import Exchange, jobs_on
from elastane.policies.view import JobView, View


@dataclass(frozen=True)
class DecisionInputs:
    """The inputs of one decision: a problem per accelerator type, the job estimates, and state to remember."""

    parts: Parts
    outlook: JobEstimates
    memory: dict[str, Any]


def see(view: View, explore: float, first: int, caution: float) -> DecisionInputs:
    """Gathers the inputs from a view.

    Args:
        view: The view to decide on, with corrected speed models.
        explore: A job may get at most this many times the GPUs it was ever seen with.
        first: A job that was never measured may get this many.
        caution: Exponent of the gain assumed beyond the GPUs a job was seen with.
    """
    known = view.memory.get("types") if isinstance(view.memory, dict) else None
    if len({node.gpu_type for node in view.nodes.values() if node.gpus}) <= 1:
        found = _alike(view, explore, first, caution)
        return replace(found, memory={**found.memory, "types": known}) if known else found
    frame = frame_of(view, explore, first)
    exchange = Exchange.of(known).with_jobs(frame.jobs)
    names = sorted({node.gpu_type for node in view.nodes.values()})
    on_types = jobs_on(exchange, frame.jobs, view, names)
    beyond = (known or {}).get("beyond", {})
    sides = [_side(frame, view, *each, beyond) for each in zip(range(len(names)), names, on_types, strict=True)]
    outlook = _mean(frame.jobs, view, sides, [side.usual(caution) for side in sides])
    hopes = [side.hopes(caution) for side in sides]
    parts = connected(_parts(frame, view, sides, hopes, outlook, exchange))
    learned = {side.name: side.experience.memory() for side in sides}
    memory = {"types": {"exchange": exchange.memory(), "beyond": learned}}
    if isinstance(view.memory, dict) and "beyond" in view.memory:
        memory["beyond"] = view.memory["beyond"]
    present = parts[0].current_speedups()
    return DecisionInputs(parts, replace(outlook, present=present), memory)


def _alike(view: View, explore: float, first: int, caution: float) -> DecisionInputs:
    """Gathers the inputs for a cluster on which all GPUs are of one type."""
    problem = build_problem(view, 1.0, 0.0, True, explore, first)
    per_node = int(problem.node_gpus.max(initial=1))
    experience = Experience.of(view.memory).with_jobs(problem.jobs, per_node)
    hopes = Belief(caution, experience.exponents(problem.jobs, per_node, caution), per_node)
    usual = Belief(caution, experience.usual(len(problem.jobs)), per_node)
    outlook = look(problem.jobs, view, usual)
    return DecisionInputs((cautious(problem, hopes),), outlook, {"beyond": experience.memory()})


@dataclass(frozen=True)
class _Side:
    """One accelerator type: the jobs with their speeds on it, and the gains observed beyond one of its nodes."""

    kind: int
    name: str
    gpus: int
    per_node: int
    jobs: tuple[JobView, ...]
    experience: Experience

    def hopes(self, caution: float) -> Belief:
        """Returns optimistic limits on the gain of more GPUs of this type, for dividing GPUs: long jobs may explore."""
        return Belief(caution, self.experience.exponents(self.jobs, self.per_node, caution), self.per_node)

    def usual(self, caution: float) -> Belief:
        """Returns the usual gain of more GPUs of this type, for pricing work."""
        return Belief(caution, self.experience.usual(len(self.jobs)), self.per_node)


def _side(
    frame: Frame, view: View, kind: int, name: str, jobs: tuple[JobView, ...], beyond: Mapping[str, Any]
) -> _Side:
    per_node = max(int(frame.node_gpus[frame.kinds == kind].max(initial=1)), 1)
    gpus = sum(node.gpus for node in view.usable.values() if node.gpu_type == name)
    were_there = [
        there
        for job, there in zip(frame.jobs, jobs, strict=True)
        if isinstance(job.speed, GoodputModel) and name in job.speed.params
    ]
    known = Experience.of({"beyond": beyond.get(name)})
    return _Side(kind, name, gpus, per_node, jobs, known.with_jobs(were_there, per_node))


def _weights(jobs: Sequence[JobView], sides: Sequence[_Side]) -> FloatArray:
    """Returns for each (job, type) the fraction of the GPUs the job may use that are of this type."""
    gpus = np.array([float(side.gpus) for side in sides])
    wishes = {job.request.types for job in jobs}
    rows = {wish: np.array([not wish or side.name in wish for side in sides]) * gpus for wish in wishes}
    found = np.array([rows[job.request.types] for job in jobs]).reshape(len(jobs), len(sides))
    found[found.sum(axis=1) == 0.0] = 1.0
    out: FloatArray = found / found.sum(axis=1, keepdims=True)
    return out


def _mean(
    jobs: tuple[JobView, ...], view: View, sides: Sequence[_Side], beliefs: Sequence[Belief]
) -> JobEstimates:
    """Builds the job estimates on mean GPUs; no curve uses more GPUs of a type than exist."""
    sizes = sizes_up_to(max(view.total_gpus, 1))
    weights = _weights(jobs, sides)
    rates, alone = np.zeros((len(jobs), len(sizes))), np.zeros(len(jobs))
    for side, belief, weight in zip(sides, beliefs, weights.T, strict=True):
        within: IntArray = np.minimum(sizes, max(side.gpus, 1))
        curves, one = speedups_of(side.jobs, within, side.per_node, belief, side.name)
        never = np.isnan(one)
        rates += weight[:, None] * curves * np.where(never, 1.0, one)[:, None]
        alone += weight * one
    return outlook_of(jobs, view.total_gpus, rates / np.where(np.isnan(alone), 1.0, alone)[:, None], alone)


def _parts(
    frame: Frame,
    view: View,
    sides: Sequence[_Side],
    beliefs: Sequence[Belief],
    outlook: JobEstimates,
    exchange: Exchange,
) -> Parts:
    """Builds a problem for each type, its speeds in the work of one mean GPU."""
    fast = exchange.typical([side.name for side in sides])
    typical = fast / (_weights(frame.jobs, sides) @ fast)[:, None]
    found = []
    for side, belief in zip(sides, beliefs, strict=True):
        here = replace(frame, jobs=side.jobs)
        most = np.minimum(frame.most, reach_of(frame.jobs, view, side.name))
        part = part_of(here, side.kind, side.name, most, outlook.alone, typical[:, side.kind])
        found.append(cautious(part, belief))
    return tuple(found)
