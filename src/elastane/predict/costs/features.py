"""Computes the features of operators of one kind: logarithms of sizes, and measures of what makes hardware slow.

All are relative to the device (how many multiprocessors a tile grid fills, what share of the roofline is memory), so
that a fit to one device carries over to another.  Raw peaks and bandwidths are left out on purpose: with a handful of
devices a model would only learn to recognise them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from elastane.models.speed import FloatArray
from elastane.predict.costs.contract import moved_bytes
from elastane.predict.devices import Device
from elastane.predict.operators import Kind, Operator, Phase

_TILE = 128


def features(operators: Sequence[Operator], device: Device, precision: str = "fp32") -> FloatArray:
    """Returns one row of features per operator; all must be of one kind and have equally many dims."""
    moved = moved_bytes(operators, precision)
    peak = device.peak(precision)
    return np.array(
        [_row(each, size, peak, device) for each, size in zip(operators, moved, strict=True)], np.float64
    ).reshape(len(operators), -1)


def _row(operator: Operator, moved: float, peak: float, device: Device) -> list[float]:
    sizes = [math.log2(1.0 + each) for each in operator.dims]
    work = [
        math.log2(1.0 + operator.flops),
        math.log2(1.0 + moved),
        math.log2((operator.flops / peak + 1e-12) / (moved / device.bandwidth + 1e-12)),
        math.log2(1e-7 + max(operator.flops / peak, moved / device.bandwidth)),
        float(operator.phase is Phase.BACKWARD),
    ]
    return [*sizes, *work, *_grid(operator, device)]


def _grid(operator: Operator, device: Device) -> list[float]:
    """Returns how often the output's tiles fill the device, how full the last wave is, and whether sizes are even."""
    outputs = _outputs(operator)
    if outputs is None:
        return []
    batch, rows, columns, inner = outputs
    tiles = batch * math.ceil(rows / _TILE) * math.ceil(columns / _TILE)
    waves = tiles / max(device.sms, 1)
    even = [float(side % 16 == 0) for side in (columns, inner)]
    narrow = [float(columns % 4 == 0), float(inner % 4 == 0)]
    return [math.log2(1e-3 + waves), waves / max(math.ceil(waves), 1), *even, *narrow]


def _outputs(operator: Operator) -> tuple[int, int, int, int] | None:
    """Returns the operator as a matrix product: batch, rows, columns, inner size; None for other kinds."""
    dims = operator.dims
    if operator.kind is Kind.MATMUL:
        return dims[0], dims[1], dims[2], dims[3]
    if operator.kind in (Kind.CONVOLUTION, Kind.CONVOLUTION_BACKWARD):
        groups = max(dims[7], 1)
        return groups, dims[0] * dims[4], max(dims[2] // groups, 1), max(dims[1] // groups, 1) * dims[5]
    return None
