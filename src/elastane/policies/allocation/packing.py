"""Restricts job sizes to those that pack: powers of two within a node, and whole nodes.

A job on three of a node's four GPUs leaves one, and a job that needs two finds only single GPUs on different nodes.
Powers of two apply where all nodes have the same power of two of GPUs; a job that holds another size may keep it.
Where the restriction leaves GPUs idle, ``multi_type.solve`` tries other sizes, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from elastane.models.speed import FloatArray, IntArray
from elastane.policies.allocation.problem import Problem


def packings(problem: Problem, values: FloatArray) -> Iterator[FloatArray]:
    """Yields ``values`` (job, size) with ever fewer restrictions: sizes that pack, any size on one node, all."""
    yield packing(problem, values)
    yield packing(problem, values, within=False)
    yield values


def packing(problem: Problem, values: FloatArray, *, within: bool = True) -> FloatArray:
    """Returns ``values`` (job, size) with −inf for sizes that do not pack; ``within`` also restricts sizes on one node.

    The size a job holds, the most it asks for, and sizes with no allowed smaller one stay; so do those of urgent jobs.
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
    """Returns for each size the largest one up to it that packs; all sizes do where nodes differ in their GPUs."""
    per_node = int(node_gpus.max(initial=0))
    if per_node < 1 or (node_gpus[node_gpus > 0] != per_node).any():
        return sizes
    whole = sizes - sizes % per_node
    inside = sizes
    if within and per_node & (per_node - 1) == 0:
        inside = np.where(sizes > 0, 1 << np.log2(np.maximum(sizes, 1)).astype(np.int64), 0)
    out: IntArray = np.where(sizes < per_node, inside, whole)
    return out
