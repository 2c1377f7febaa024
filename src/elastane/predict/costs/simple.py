"""Implements cost models that learn nothing from shapes: linear in FLOPs, PALEO, and the plain roofline.

They serve for comparison, and as the last resort for devices that were not measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from elastane.models.speed import FloatArray
from elastane.predict.costs.contract import LEAST_S, Basis, Times, Timing, moved_bytes, roofline_s
from elastane.predict.devices import Device
from elastane.predict.operators import Kind, Operator

UNMEASURED_SD = 0.3
"""Log standard deviation that all operators share on a device that was not measured."""


@dataclass(frozen=True)
class LinearInFlops:
    """Predicts t = a·FLOPs + b per kind, fitted by least squares of seconds: the usual rule of thumb."""

    coefficients: dict[Kind, tuple[float, float]]
    name: str = "linear in FLOPs"
    basis: Basis = Basis.CALIBRATED
    log_sd: float = 0.5

    @classmethod
    def fit(cls, timings: Sequence[Timing]) -> LinearInFlops:
        """Fits one line per kind of operators."""
        lines = {}
        for kind in {each.operator.kind for each in timings}:
            rows = [each for each in timings if each.operator.kind is kind]
            flops = np.array([each.operator.flops for each in rows])
            seconds = np.array([each.seconds for each in rows])
            matrix = np.stack([flops, np.ones_like(flops)], axis=1)
            slope, start = np.linalg.lstsq(matrix, seconds, rcond=None)[0]
            lines[kind] = (float(slope), float(start))
        return cls(lines)

    def times(self, operators: Sequence[Operator], device: Device, precision: str = "fp32") -> Times:
        """Predicts by the line of each kind; kinds that were never measured take the time of the roofline."""
        roof = roofline_s(operators, device, precision)
        seconds = [self._line(each, float(least)) for each, least in zip(operators, roof, strict=True)]
        return _with_spread(np.maximum(np.array(seconds, np.float64), LEAST_S), self.log_sd)

    def _line(self, operator: Operator, otherwise: float) -> float:
        if operator.kind not in self.coefficients:
            return otherwise
        slope, start = self.coefficients[operator.kind]
        return slope * operator.flops + start


@dataclass(frozen=True)
class Paleo:
    """PALEO's layer time: bytes / bandwidth + FLOPs / peak, each divided by one "platform percent of peak".

    The sum is PALEO's own choice (nothing overlaps).  Bias and activation are ignored there; here they are operators
    like others, charged by the same formula.  Qi, Sparks and Talwalkar, ICLR 2017.
    """

    percent_of_peak: float = 0.62
    name: str = "PALEO"
    basis: Basis = Basis.ROOFLINE
    log_sd: float = 0.5

    @classmethod
    def fit(cls, timings: Sequence[Timing]) -> Paleo:
        """Fits the one constant, such that half of the measurements take longer."""
        ideal = np.array([_ideal_s([each.operator], each.device, each.precision)[0] for each in timings])
        measured = np.array([each.seconds for each in timings])
        ratio = float(np.median(ideal / np.maximum(measured, LEAST_S)))
        return cls(percent_of_peak=max(ratio, 1e-6), basis=Basis.CALIBRATED)

    def times(self, operators: Sequence[Operator], device: Device, precision: str = "fp32") -> Times:
        """Predicts by the formula, at least ``LEAST_S`` each."""
        seconds = _ideal_s(operators, device, precision) / self.percent_of_peak
        return _with_spread(np.maximum(seconds, LEAST_S), self.log_sd)


def _ideal_s(operators: Sequence[Operator], device: Device, precision: str) -> FloatArray:
    flops = np.array([each.flops for each in operators], np.float64)
    moved = moved_bytes(operators, precision)
    return np.asarray(flops / device.peak(precision) + moved / device.bandwidth, np.float64)


@dataclass(frozen=True)
class Roofline:
    """Predicts the roofline's time divided by the usual fraction that is reached; for unmeasured devices."""

    usual: float = 0.6
    factors: Mapping[Kind, float] = field(default_factory=dict)
    """Factors on the time from probes of a device, by kind."""
    name: str = "roofline"
    basis: Basis = Basis.ROOFLINE
    log_sd: float = 0.35

    def times(self, operators: Sequence[Operator], device: Device, precision: str = "fp32") -> Times:
        """Predicts each operator; the launch cost is added and not divided by the fraction."""
        launch = device.launch_us * 1e-6
        seconds = (roofline_s(operators, device, precision) - launch) / self.usual + launch
        seconds = seconds * np.array([self.factors.get(each.kind, 1.0) for each in operators])
        return _with_spread(np.asarray(np.maximum(seconds, LEAST_S), np.float64), self.log_sd, UNMEASURED_SD)


def _with_spread(seconds: FloatArray, log_sd: float, shared_sd: float = 0.0) -> Times:
    return Times(seconds, np.full_like(seconds, log_sd), np.zeros_like(seconds), shared_sd)
