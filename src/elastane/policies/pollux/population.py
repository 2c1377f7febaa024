"""Packs the last population of the genetic search into JSON values, from which the next round starts."""

from __future__ import annotations

import base64
import zlib
from typing import Any, NamedTuple

import numpy as np

from elastane.policies.allocation.problem import Problem
from elastane.policies.pollux.variation import States

_TYPE = np.dtype("<i2")


class _Remembered(NamedTuple):
    """A population with the place of every job and every node in it."""

    jobs: dict[str, int]
    nodes: dict[str, int]
    states: States


def remember(problem: Problem, states: States) -> dict[str, Any]:
    """Packs a population as ``jobs``, ``nodes``, ``count`` and compressed ``population``."""
    packed = zlib.compress(np.ascontiguousarray(states, dtype=_TYPE).tobytes(), 1)
    return {
        "jobs": [job.id for job in problem.jobs],
        "nodes": list(problem.node_ids),
        "count": states.shape[2],
        "population": base64.b64encode(packed).decode("ascii"),
    }


def first_population(problem: Problem, memory: Any) -> States:
    """Returns the present allocation, followed by the population of the last round.

    Jobs that finished are gone, new ones hold nothing, nodes are matched by id.  A memory that cannot be read
    (another version, another policy, a damaged file) counts as none.
    """
    present = problem.held.astype(np.int16)[:, :, None]
    found = _recall(memory)
    if found is None:
        return present
    states = np.zeros((*present.shape[:2], found.states.shape[2]), dtype=np.int16)
    rows = [(i, found.jobs[job.id]) for i, job in enumerate(problem.jobs) if job.id in found.jobs]
    columns = [(i, found.nodes[node]) for i, node in enumerate(problem.node_ids) if node in found.nodes]
    if rows and columns:
        (new_row, old_row), (new_column, old_column) = np.array(rows).T, np.array(columns).T
        states[np.ix_(new_row, new_column)] = found.states[np.ix_(old_row, old_column)]
    np.clip(states, 0, problem.node_gpus[:, None], out=states, casting="unsafe")
    return np.concatenate([present, states], axis=2)


def _recall(memory: Any) -> _Remembered | None:
    try:
        jobs = {str(job): i for i, job in enumerate(memory["jobs"])}
        nodes = {str(node): i for i, node in enumerate(memory["nodes"])}
        shape = (len(memory["jobs"]), len(memory["nodes"]), abs(int(memory["count"])))
        packed = zlib.decompress(base64.b64decode(memory["population"], validate=True))
        states = np.frombuffer(packed, dtype=_TYPE).reshape(shape)
    except (TypeError, KeyError, ValueError, zlib.error):
        return None
    if (len(jobs), len(nodes)) != shape[:2]:  # names that occur twice
        return None
    return _Remembered(jobs, nodes, states.astype(np.int16))
