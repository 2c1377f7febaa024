"""The small lives that the suite puts a policy through."""

from __future__ import annotations

from dataclasses import dataclass

from elastane.cluster import Cluster, Node
from elastane.jobs.kinds import Kind
from elastane.policies.view import Request
from elastane.testing.policies.jobs import Trial
from elastane.testing.policies.views import speed_model

HORIZON_S = 40_000.0
"""By then every crowd below has long finished under any policy that gets on at all."""


@dataclass(frozen=True)
class Machines:
    """A cluster with a name for test ids."""

    name: str
    nodes: tuple[Node, ...]


PAIR = Machines("two equal nodes", tuple(Cluster.uniform(2, 4).nodes.values()))
SINGLE = Machines("one node", tuple(Cluster.uniform(1, 4).nodes.values()))
MIXED = Machines("two accelerators", (Node("a", 4, "t4"), Node("b", 4, "v100"), Node("c", 2, "v100")))
CLUSTERS = (PAIR, SINGLE, MIXED)


def elastic(least: int, workers: int, most: int) -> Request:
    """A request that may be given any size between two."""
    return Request(workers, least, most)


def rigid(workers: int, preemptible: bool = True) -> Request:
    """A request for exactly so many workers."""
    return Request(workers, workers, workers, preemptible=preemptible)


SINGLES = (
    Trial("one worker", 0.0, 600.0, rigid(1), Kind.RIGID),
    Trial("rigid gang", 90.0, 900.0, rigid(4), Kind.RIGID),
    Trial("elastic", 90.0, 900.0, elastic(1, 2, 16)),
    Trial("elastic gang", 0.0, 900.0, elastic(2, 4, 8), model=speed_model(1)),
)
"""Jobs that are alone."""

FIXED = (
    Trial("not preemptible", 0.0, 4_000.0, rigid(4, preemptible=False), Kind.RIGID),
    Trial("not suspendable", 0.0, 4_000.0, rigid(2), Kind.COMMAND),
    Trial("elastic, not preemptible", 0.0, 4_000.0, Request(2, 1, 4, preemptible=False)),
)
"""Jobs that must be left alone once they run."""

LONG = (
    Trial("wide and long", 50.0, 10_000.0, rigid(4), Kind.RIGID),
    Trial("narrow and long", 50.0, 10_000.0, rigid(1), Kind.RIGID),
)
"""Jobs that a stream of short ones could keep from running."""


def crowd(after_s: float = 0.0) -> list[Trial]:
    """Ten jobs, rigid and elastic, more than eight GPUs hold at once."""
    wishes = [rigid(2), elastic(1, 2, 8), rigid(4), rigid(1), elastic(1, 1, 4)] * 2
    return [
        Trial(
            id=f"j{number}",
            submit_s=after_s + 130.0 * number,
            seconds=300.0 + 250.0 * (number % 4),
            request=wish,
            kind=Kind.ADAPTIVE if wish.max_workers > wish.min_workers else Kind.RIGID,
            model=speed_model(number, 500.0 * (number + 1)),
        )
        for number, wish in enumerate(wishes)
    ]


def stream(until_s: float) -> list[Trial]:
    """Short one-worker jobs, six at once and then somewhat more than four GPUs can serve."""
    times_s = [0.0] * 6 + [20.0 * i for i in range(int(until_s / 20.0))]
    return [Trial(f"s{i:05d}", when_s, 100.0, rigid(1), Kind.RIGID) for i, when_s in enumerate(times_s)]
