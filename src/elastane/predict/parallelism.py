"""Predicts a step under model and hybrid parallelism, as PALEO does.

*Model parallel*: every convolution and product is cut by its outputs, so each worker computes 1/n of every layer and
fetches the other workers' part of the layer's input, forward, and of its gradient, backward.  Between groups of four
workers the bandwidth is half.  How far the parts overlap is not known beforehand: PALEO gives bounds, the longest part
if they all do and the sum if none does; the interval spans both, its middle is the first.

*Hybrid* ("one weird trick", Krizhevsky 2014): convolutions are data parallel, products model parallel.

=========  ==============================================================
symbol     meaning
=========  ==============================================================
n          workers
A          bytes of a layer's input, of one worker's batch
B          bytes per second of the link times its percent of peak
fetch      2 · (n−1)/n · A / B, forward and backward together
=========  ==============================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum

from elastane.predict.collectives import Sharing
from elastane.predict.interval import Interval
from elastane.predict.operators import Kind, Operator, Phase
from elastane.predict.steps import StepEstimate

GROUP = 4
"""Workers that reach each other at full bandwidth."""


class Parallel(Enum):
    """The ways to spread a network over workers."""

    DATA = "data"
    MODEL = "model"
    HYBRID = "hybrid"

    @property
    def shares_samples(self) -> bool:
        """Whether each worker takes samples of its own, so that a step has n times as many."""
        return self is not Parallel.MODEL


def activations(operator: Operator) -> float:
    """Returns the bytes of a layer's input; 0 for operators without weights."""
    if operator.phase is not Phase.FORWARD:
        return 0.0
    if operator.kind is Kind.CONVOLUTION:
        n, c_in, _, size = operator.dims[:4]
        return 4.0 * n * c_in * size
    if operator.kind is Kind.MATMUL and operator.name.rpartition("::")[2] in ("mm", "addmm", "linear"):
        batch, m, _, k = operator.dims[:4]
        return 4.0 * batch * m * k
    return 0.0


def fetch_s(size: float, sharing: Sharing, link_gb_per_s: float, latency_us: float) -> float:
    """Returns the seconds to fetch the other workers' part of an input and to return that of its gradient."""
    if sharing.workers <= 1 or size <= 0.0:
        return 0.0
    slower = 0.5 if sharing.workers > GROUP else 1.0
    bandwidth = link_gb_per_s * 1e9 * sharing.percent_of_peak * slower
    return 2.0 * ((sharing.workers - 1) / sharing.workers * size / bandwidth + latency_us * 1e-6)


def model_parallel(step: StepEstimate, sharing: Sharing) -> Interval:
    """Predicts one step of one batch that is split over all workers."""
    workers = sharing.workers
    if workers <= 1:
        return step.seconds
    fetch = _fetches_s(step, sharing, lambda _: True)
    side_by_side = step.seconds.scaled(1.0 / workers) + Interval.exactly(fetch)
    one_by_one = step.seconds + Interval.exactly(fetch)
    return Interval(side_by_side.low, side_by_side.middle, one_by_one.high)


def hybrid(step: StepEstimate, sharing: Sharing) -> Interval:
    """Predicts a step in which every worker has its own batch for convolutions, and a part of every product.

    A product's batch is all workers' together, its outputs 1/n: as much work as alone.  What is exchanged are the
    gradients of all but the products, and the inputs of products.
    """
    if sharing.workers <= 1:
        return step.seconds
    products = sum(_weights(each) for each in step.operators if activations(each) and each.kind is Kind.MATMUL)
    size = max(step.capture.memory.gradients - products, 0.0)
    exchange = sharing.exposed_s(size, step.machine.device.link, step.phase_s(Phase.BACKWARD))
    fetch = _fetches_s(step, sharing, lambda each: each.kind is Kind.MATMUL, batches=sharing.workers)
    doubt = 1.0 + 0.1 * math.log2(sharing.workers)
    return (step.seconds + Interval.exactly(exchange + fetch)).widened(doubt)


def _weights(operator: Operator) -> float:
    batch, _, n, k = operator.dims[:4]
    return 4.0 * batch * n * k


def _fetches_s(
    step: StepEstimate, sharing: Sharing, wanted: Callable[[Operator], bool], batches: int = 1
) -> float:
    link = step.machine.device.link
    gb_per_s = link.intra_gb_per_s if sharing.nodes == 1 else min(link.inter_gb_per_s, link.intra_gb_per_s)
    inputs = [activations(each) * batches for each in step.operators if wanted(each)]
    return sum(fetch_s(each, sharing, gb_per_s, link.latency_us) for each in inputs)
