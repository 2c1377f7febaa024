"""Makes a cost model monotone: an operator is predicted to take no longer than the same operator made larger.

Fitted to a few hundred timings, a Gaussian process may predict a product of four rows to be faster than one of two.
Where both cannot be right the prediction of the larger one is used.  Using the smaller one (a maximum over halved
sizes) was tried as well, and predicted operators that were left out of the fit worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from elastane.predict.costs.contract import Basis, CostModel, Times
from elastane.predict.devices import Device
from elastane.predict.operators import Kind, Operator, Shape

FACTORS = (1, 2, 4)
"""Factors on every size that may grow, in all combinations; larger ones hardly ever change the minimum."""
EVEN = 4
"""Sizes above this that are not a multiple of it are slow for their own reason."""

_CONVOLUTIONS = (Kind.CONVOLUTION, Kind.CONVOLUTION_BACKWARD)
_AXES: dict[Kind, tuple[tuple[int, ...], ...]] = {
    Kind.MATMUL: ((0,), (1,), (2,), (3,)),
    Kind.CONVOLUTION: ((0,), (1,), (2,)),
    Kind.CONVOLUTION_BACKWARD: ((0,), (1,), (2,)),
    Kind.ATTENTION: ((0,),),
    Kind.RECURRENT: ((0,), (1,)),
}
"""Indices into ``dims`` that may grow; for other kinds the elements read and written grow together."""
_ALIGNED: dict[Kind, tuple[int, ...]] = {
    Kind.MATMUL: (2, 3),
    Kind.CONVOLUTION: (1, 2),
    Kind.CONVOLUTION_BACKWARD: (1, 2),
}
"""Indices into ``dims`` of sizes that are slow where they are uneven."""


@dataclass(frozen=True, eq=False)
class Monotone:
    """Wraps a cost model: no time is above that of a larger operator; uncertainties are the inner model's."""

    inner: CostModel

    @property
    def name(self) -> str:
        """The name of the wrapped cost model."""
        return self.inner.name

    @property
    def basis(self) -> Basis:
        """The basis of the wrapped cost model."""
        return self.inner.basis

    def times(self, operators: Sequence[Operator], device: Device, precision: str = "fp32") -> Times:
        """Returns the minimum over each operator and larger ones; equal operators are predicted once."""
        if not operators:
            return self.inner.times(operators, device, precision)
        plain = [replace(each, module="", inputs=(), outputs=()) for each in operators]
        places = {each: place for place, each in enumerate(dict.fromkeys(plain))}
        families = [[each, *_larger(each)] for each in places]
        starts = np.cumsum([0, *(len(each) for each in families[:-1])])
        found = self.inner.times([each for family in families for each in family], device, precision)
        index = [places[each] for each in plain]
        own = starts[index]
        least = np.minimum.reduceat(found.seconds, starts)
        return Times(least[index], found.log_sd[own], found.distance[own], found.shared_sd)


def _larger(operator: Operator) -> Iterator[Operator]:
    flops, moved = _work(operator.kind, operator.dims)
    if flops <= 0 or moved <= 0:
        return
    axes = _axes(operator)
    for factors in product(FACTORS, repeat=len(axes)):
        sizes = list(operator.dims)
        for places, factor in zip(axes, factors, strict=True):
            for place in places:
                sizes[place] *= factor
        dims = tuple(sizes)
        if dims != operator.dims:
            grown = _work(operator.kind, dims)
            yield replace(
                operator,
                dims=dims,
                flops=operator.flops * grown[0] / flops,
                bytes=operator.bytes * grown[1] / moved,
            )


def _axes(operator: Operator) -> list[tuple[int, ...]]:
    """Returns the sizes that may grow, as groups of indices into ``dims``.

    Uneven ones may not: twice as many are even, and may well be faster.  A product without a batch is not given one,
    and channels in groups stay as they are.
    """
    dims, kind = operator.dims, operator.kind
    fixed = {place for place in _ALIGNED.get(kind, ()) if dims[place] > EVEN and dims[place] % EVEN}
    if kind is Kind.MATMUL and dims[0] == 1:
        fixed.add(0)
    if kind in _CONVOLUTIONS and dims[7] > 1:
        fixed.update(_ALIGNED[kind])
    return [places for places in _AXES.get(kind, ((0, 1),)) if fixed.isdisjoint(places)]


def _work(kind: Kind, dims: Shape) -> tuple[float, float]:
    """Returns quantities proportional to the FLOPs and to the bytes of an operator with these sizes."""
    if kind is Kind.MATMUL:
        batch, m, n, k = dims
        return batch * m * n * k, batch * (m * k + k * n + m * n)
    if kind in _CONVOLUTIONS:
        batch, into, out, size_in, size_out, kernel, _, groups = dims[:8]
        weights = into * out / max(groups, 1)
        return batch * weights, batch * (into * size_in + out * size_out) + weights * kernel
    if kind is Kind.ATTENTION:
        return dims[0], dims[0]
    if kind is Kind.RECURRENT:
        return dims[0] * dims[1], dims[0] * dims[1]
    return max(dims[0], dims[1]), dims[0] + dims[1]
