"""Predicts the time of an all-reduce of gradients: α-β models of the usual schemes and of PALEO's.

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
    """Returns 2(n−1)/n · S/B + 2(n−1)·α seconds: what NCCL and gloo do for large tensors."""
    if workers <= 1:
        return 0.0
    return 2.0 * (workers - 1) / workers * size / bandwidth + 2.0 * (workers - 1) * alpha_s


def tree_s(size: float, workers: int, bandwidth: float, alpha_s: float) -> float:
    """Returns 2⌈log₂ n⌉ · (S/B + α) seconds: PALEO's TreeAllReduce with a latency."""
    return 2.0 * _rounds(workers) * (size / bandwidth + alpha_s)


def butterfly_s(size: float, workers: int, bandwidth: float, alpha_s: float) -> float:
    """Returns ⌈log₂ n⌉ · (S/B + α) seconds: PALEO's ButterflyAllReduce."""
    return _rounds(workers) * (size / bandwidth + alpha_s)


def one_to_all_s(size: float, workers: int, bandwidth: float, alpha_s: float) -> float:
    """Returns 2(n−1) · (S/B + α) seconds: PALEO's OneToAll, where one worker exchanges with all others in turn."""
    return 2.0 * max(workers - 1, 0) * (size / bandwidth + alpha_s)


def mixing_s(size: float, workers: int, bandwidth: float, alpha_s: float) -> float:
    """Returns S/B + α seconds: PALEO's ButterflyMixing, one exchange per step, gradients spread over several."""
    return size / bandwidth + alpha_s if workers > 1 else 0.0


def _rounds(workers: int) -> int:
    return math.ceil(math.log2(workers)) if workers > 1 else 0


class AllReduce(Enum):
    """The schemes of all-reduce, by the names users write."""

    RING = "ring"
    TREE = "tree"
    BUTTERFLY = "butterfly"
    ONE_TO_ALL = "one-to-all"
    MIXING = "mixing"

    @property
    def seconds(self) -> Scheme:
        """The function that computes the scheme's seconds."""
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
        """The number of nodes that hold the workers."""
        return -(-self.workers // self.per_node)

    def exchange_s(self, size: float, link: Link) -> float:
        """Returns the seconds of one exchange, with nothing hidden behind backward."""
        gb_per_s = link.intra_gb_per_s if self.nodes == 1 else min(link.inter_gb_per_s, link.intra_gb_per_s)
        bandwidth = gb_per_s * 1e9 * self.percent_of_peak
        return self.scheme.seconds(size, self.workers, bandwidth, link.latency_us * 1e-6)

    def exposed_s(self, size: float, link: Link, backward_s: float) -> float:
        """Returns the seconds of an exchange that backward does not hide; the last bucket is never hidden."""
        exchange = self.exchange_s(size, link)
        return exchange - min(self.overlap * exchange, backward_s)
