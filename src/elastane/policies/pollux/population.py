"""The genetic search's memory: its last population, packed into JSON values, and the start it gives the next round."""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Any

import numpy as np

from elastane.policies.pollux.problem import Problem
from elastane.policies.pollux.variation import States

_TYPE = np.dtype("<i2")


def remember(problem: Problem, states: States) -> dict[str, Any]:
    """A population as ``jobs``, ``nodes``, ``count`` and packed ``population``."""
    packed = zlib.compress(np.ascontiguousarray(states, dtype=_TYPE).tobytes(), 1)
    return {
        "jobs": [job.id for job in problem.jobs],
        "nodes": list(problem.node_ids),
        "count": states.shape[2],
        "population": base64.b64encode(packed).decode("ascii"),
    }


def first_population(problem: Problem, memory: Any) -> States:
    """The present allocation, then what is remembered of the last round.

    Jobs that finished are gone, new ones hold nothing, nodes are matched by id.  A memory that cannot be read
    (another version, another policy, a damaged file) is worth as much as none.
    """
    present = problem.held.astype(np.int16)[:, :, None]
    remembered = _recall(memory)
    if remembered is None:
        return present
    jobs, nodes, states = remembered
    out = np.zeros((*present.shape[:2], states.shape[2]), dtype=np.int16)
    job_at = {job: i for i, job in enumerate(jobs)}
    node_at = {node: i for i, node in enumerate(nodes)}
    rows = [(i, job_at[job.id]) for i, job in enumerate(problem.jobs) if job.id in job_at]
    columns = [(i, node_at[node]) for i, node in enumerate(problem.node_ids) if node in node_at]
    if rows and columns:
        (new_row, old_row), (new_column, old_column) = np.array(rows).T, np.array(columns).T
        out[np.ix_(new_row, new_column)] = states[np.ix_(old_row, old_column)]
    return np.concatenate([present, out], axis=2)


def _recall(memory: Any) -> tuple[list[str], list[str], States] | None:
    try:
        jobs, nodes, count = list(memory["jobs"]), list(memory["nodes"]), int(memory["count"])
        packed = zlib.decompress(base64.b64decode(memory["population"], validate=True))
        states = np.frombuffer(packed, dtype=_TYPE).reshape(len(jobs), len(nodes), count)
    except (TypeError, KeyError, ValueError, binascii.Error, zlib.error):
        return None
    if len(set(jobs)) != len(jobs) or len(set(nodes)) != len(nodes) or (states < 0).any():
        return None
    return jobs, nodes, states.astype(np.int16)
