"""Sizes that fit together: what is left beside them on a node is of use to somebody.

Three of the four GPUs of a node leave one, and jobs that need two find only single ones, on different nodes.  Where a
node has a power of two of GPUs, jobs get a power of two of them, or whole nodes; a job that holds something else may
keep it.  Where that leaves GPUs idle, other sizes are looked at, too (``mixed``).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from elastane.models.speed import FloatArray, IntArray
from elastane.policies.allocation.problem import Problem


def packings(problem: Problem, values: FloatArray) -> Iterator[FloatArray]:
    """``values`` (job, size) with sizes that fit together, then with any size on one node, then with all."""
    yield packing(problem, values)
    yield packing(problem, values, within=False)
    yield values


def packing(problem: Problem, values: FloatArray, *, within: bool = True) -> FloatArray:
    """``values`` (job, size) without the sizes that do not fit together; ``within``: on one node, too.

    What a job holds, the most it asks for, and what has nothing smaller that it may have instead stay as they are, and
    so does all that is urgent.
    """
    if not len(values):
        return values
    sizes = np.arange(values.shape[1])
    below = fitting_below(sizes, problem.node_gpus, within=within)
    odd = (below != sizes) & (below >= problem.least[:, None])
    rows = np.arange(len(values))
    odd[rows, np.minimum(problem.held_total, sizes[-1])] = False
    asked = np.array([job.request.max_workers for job in problem.jobs])
    odd &= sizes != asked[:, None]
    odd[list(problem.urgent)] = False
    return np.where(odd, -np.inf, values)


def fitting_below(sizes: IntArray, node_gpus: IntArray, *, within: bool = True) -> IntArray:
    """The largest size, up to each of these, that fits together with others; nodes that differ have no such sizes."""
    per_node = int(node_gpus.max(initial=0))
    if per_node < 1 or (node_gpus[node_gpus > 0] != per_node).any():
        return sizes
    whole = sizes - sizes % per_node
    inside = sizes
    if within and per_node & (per_node - 1) == 0:
        inside = np.where(sizes > 0, 1 << np.log2(np.maximum(sizes, 1)).astype(np.int64), 0)
    out: IntArray = np.where(sizes < per_node, inside, whole)
    return out
