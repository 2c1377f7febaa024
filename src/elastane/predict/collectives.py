"""How long workers take to add up their gradients: α-β models of all-reduce, PALEO's schemes beside the usual ones.

=========  ==============================================================
symbol     meaning
=========  ==============================================================
S          bytes of gradients
n          workers
B          bytes per second of the slowest link used
α          seconds per message
τ          S / B
=========  ==============================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from elastane.predict.devices import Link

Scheme = Callable[[float, int, float, float], float]


def ring_s(size: float, workers: int, bandwidth: float, alpha_s: float) -> float:
    """2(n−1)/n · S/B + 2(n−1)·α: what NCCL and gloo do for large tensors."""
    if workers <= 1:
        return 0.0
    return 2.0 * (workers - 1) / workers * size / bandwidth + 2.0 * (workers - 1) * alpha_s


def tree_s(size: float, workers: int, bandwidth: float, alpha_s: float) -> float:
    """2⌈log₂ n⌉ · (S/B + α), PALEO's TreeAllReduce with a latency."""
    return 2.0 * _rounds(workers) * (size / bandwidth + alpha_s)


def butterfly_s(size: float, workers: int, bandwidth: float, alpha_s: float) -> float:
    """⌈log₂ n⌉ · (S/B + α), PALEO's ButterflyAllReduce."""
    return _rounds(workers) * (size / bandwidth + alpha_s)


def one_to_all_s(size: float, workers: int, bandwidth: float, alpha_s: float) -> float:
    """2(n−1) · (S/B + α), PALEO's OneToAll: one worker talks to all others in turn."""
    return 2.0 * max(workers - 1, 0) * (size / bandwidth + alpha_s)


def mixing_s(size: float, workers: int, bandwidth: float, alpha_s: float) -> float:
    """S/B + α, PALEO's ButterflyMixing: one exchange per step, gradients spread over several."""
    return size / bandwidth + alpha_s if workers > 1 else 0.0


def _rounds(workers: int) -> int:
    return math.ceil(math.log2(workers)) if workers > 1 else 0


class AllReduce(Enum):
    """The schemes by name."""

    RING = "ring"
    TREE = "tree"
    BUTTERFLY = "butterfly"
    ONE_TO_ALL = "one-to-all"
    MIXING = "mixing"

    @property
    def seconds(self) -> Scheme:
        """Evaluates the collective's cost formula."""
        return _SCHEMES[self]


_SCHEMES: dict[AllReduce, Scheme] = {
    AllReduce.RING: ring_s,
    AllReduce.TREE: tree_s,
    AllReduce.BUTTERFLY: butterfly_s,
    AllReduce.ONE_TO_ALL: one_to_all_s,
    AllReduce.MIXING: mixing_s,
}


@dataclass(frozen=True, slots=True)
class Sharing:
    """Data parallelism: workers, devices per node, scheme, and how much of the exchange backward may hide.

    ``overlap`` 0 is PALEO (nothing is hidden); buckets that leave while backward goes on hide most of it.
    """

    workers: int = 1
    per_node: int = 8
    scheme: AllReduce = AllReduce.RING
    overlap: float = 0.7
    percent_of_peak: float = 0.7

    @property
    def nodes(self) -> int:
        """Nodes that hold the workers."""
        return -(-self.workers // self.per_node)

    def exchange_s(self, size: float, link: Link) -> float:
        """Seconds of one exchange, with nothing hidden."""
        gb_per_s = link.intra_gb_per_s if self.nodes == 1 else min(link.inter_gb_per_s, link.intra_gb_per_s)
        bandwidth = gb_per_s * 1e9 * self.percent_of_peak
        return self.scheme.seconds(size, self.workers, bandwidth, link.latency_us * 1e-6)

    def exposed_s(self, size: float, link: Link, backward_s: float) -> float:
        """What is left after the part that hides behind backward; the last bucket can never hide."""
        exchange = self.exchange_s(size, link)
        return exchange - min(self.overlap * exchange, backward_s)
