"""What guards the roofline ratio: boosted trees on sizes and columns of the specification, their target log time.

The same trees and rows as ours, so that only the features and the target differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elastane.models.speed import FloatArray
from elastane.predict.costs.contract import Basis, Times, Timing
from elastane.predict.costs.trees import Trees, fit_trees
from elastane.predict.devices import Device
from elastane.predict.operators import Operator


@dataclass(frozen=True)
class RawColumns:
    """Log time straight from log sizes and the card's figures."""

    trees: Trees
    name: str = "raw specification columns"
    basis: Basis = Basis.RATIO

    @classmethod
    def fit(cls, timings: Sequence[Timing]) -> RawColumns:
        """To all rows at once."""
        rows = np.array([_row(each.operator, each.device) for each in timings], np.float64)
        return cls(fit_trees(rows, np.log([each.seconds for each in timings])))

    def times(self, operators: Sequence[Operator], device: Device, precision: str = "fp32") -> Times:
        """Of a card that may not be among those learnt from."""
        del precision
        seconds = np.exp(self.trees.predict(_table(operators, device)))
        return Times(seconds, np.full_like(seconds, 0.5), np.zeros_like(seconds))


def _table(operators: Sequence[Operator], device: Device) -> FloatArray:
    return np.array([_row(each, device) for each in operators], np.float64)


def _row(operator: Operator, device: Device) -> list[float]:
    work = [*operator.dims, operator.flops, operator.bytes]
    card = [device.peak("fp32"), device.bandwidth, float(device.sms), device.clock_mhz, device.memory_gb]
    return [*(float(np.log2(1.0 + each)) for each in work), *card]
