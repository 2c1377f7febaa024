"""Lists the configurations a job may be given: a type, a number of GPUs, and on how many of its nodes.

For a type with n nodes of g GPUs: (1 node; 1, 2, 4, … g GPUs), then (k nodes; k·g GPUs) for k = 2 … n, so n + log₂ g
of them.  A node whose GPUs are no power of two is split into virtual nodes that are.  Any choice of such configurations
that does not exceed the GPUs of a type can be placed so that no two jobs on several nodes share one (SOSP'23, §3.3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from elastane.policies.allocation.eviction import Configuration
from elastane.policies.view import Ability, JobView, View, has


@dataclass(frozen=True)
class Machines:
    """What there is to choose from: per type the configurations, smallest first, and the GPUs that are not taken.

    ``largest`` is the size of the type's (virtual) nodes on which jobs on several nodes are built.
    """

    valid: Mapping[str, tuple[Configuration, ...]]
    gpus: Mapping[str, int]
    largest: Mapping[str, int]

    @classmethod
    def of(cls, view: View) -> Machines:
        """Gathers the usable nodes of a view by type."""
        sizes: dict[str, list[int]] = {}
        for node in view.usable.values():
            if node.gpus:
                sizes.setdefault(node.gpu_type, []).append(node.gpus)
        valid = {kind: valid_configurations(kind, tuple(nodes)) for kind, nodes in sorted(sizes.items())}
        return cls(
            valid,
            {kind: sum(nodes) for kind, nodes in sorted(sizes.items())},
            {kind: _whole_node(nodes) for kind, nodes in sizes.items()},
        )


def virtual_nodes(gpus: int) -> list[int]:
    """Splits a node into powers of two, the largest first."""
    return [1 << bit for bit in reversed(range(gpus.bit_length())) if gpus >> bit & 1]


def _whole_node(nodes: list[int] | tuple[int, ...]) -> int:
    """Returns the size of virtual node that holds most of the GPUs; of equals the larger."""
    parts = Counter(part for node in nodes for part in virtual_nodes(node))
    return max(parts, key=lambda size: (size * parts[size], size))


def valid_configurations(gpu_type: str, nodes: tuple[int, ...]) -> tuple[Configuration, ...]:
    """Returns the valid configurations on nodes with so many GPUs each."""
    parts = Counter(part for node in nodes for part in virtual_nodes(node))
    whole = _whole_node(nodes)
    single = [Configuration(gpu_type, 1 << bit) for bit in range(max(parts).bit_length())]
    several = [Configuration(gpu_type, k * whole, k) for k in range(2, parts[whole] + 1)]
    return (*single, *(each for each in several if each.gpus > max(parts)))


def configurations_of(job: JobView, machines: Machines, most: int) -> list[Configuration]:
    """Returns the configurations with which this job may run, of at most ``most`` GPUs.

    A job of one size has a column per type; a job whose least size is none of the valid ones may have that as well.
    """
    request = job.request
    found: list[Configuration] = []
    for kind, valid in machines.valid.items():
        if request.types and kind not in request.types:
            continue
        least = max(request.min_workers, 1)
        if not has(job.abilities, Ability.RESIZE):
            least = most = request.workers
        mine = [each for each in valid if least <= each.gpus <= most]
        if least <= most and least not in {each.gpus for each in mine}:
            mine.insert(0, Configuration(kind, least, -(-least // machines.largest[kind])))
        total, widest = machines.gpus[kind], request.max_nodes
        found += [each for each in mine if each.gpus <= total and (widest is None or each.nodes <= widest)]
    return found
