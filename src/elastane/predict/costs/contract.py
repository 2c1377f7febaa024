"""Defines the interface of all cost models: operators in, seconds with their uncertainty out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np

from elastane.models.speed import FloatArray
from elastane.predict.devices import Device
from elastane.predict.operators import Operator


class Basis(Enum):
    """What a prediction rests on, from best to worst."""

    CALIBRATED = "calibrated on this machine"
    RATIO = "fitted to timings of other devices"
    ROOFLINE = "roofline only"


@dataclass(frozen=True, slots=True)
class Timing:
    """A measurement: one operator on one device took so many seconds."""

    operator: Operator
    device: Device
    seconds: float
    precision: str = "fp32"


@dataclass(frozen=True, eq=False)
class Times:
    """Seconds per operator, the log standard deviation of each, and how far each lies from what was measured.

    ``distance`` is 0 among the measurements and 1 at the edge of what they cover.
    """

    seconds: FloatArray
    log_sd: FloatArray
    distance: FloatArray
    shared_sd: float = 0.0
    """Log standard deviation that all operators of the device share, on top of their own errors."""

    @property
    def total(self) -> float:
        """The seconds of all operators, one after the other."""
        return float(self.seconds.sum())

    @property
    def own_sd(self) -> float:
        """The log standard deviation of the total, √((1−ρ)·Σ(tᵢsᵢ)² + ρ·(Σtᵢsᵢ)²) / Σtᵢ."""
        parts = self.seconds * self.log_sd
        alone, together = float((parts**2).sum()), float(parts.sum()) ** 2
        return math.sqrt((1.0 - CORRELATION) * alone + CORRELATION * together) / self.total


CORRELATION = 0.5
"""ρ, between the errors of two operators of one step: a biased fit shifts all of them (measured, not 0)."""


class CostModel(Protocol):
    """Predicts how long operators take."""

    @property
    def name(self) -> str:
        """The name that tables show."""
        ...

    @property
    def basis(self) -> Basis:
        """What its predictions rest on."""
        ...

    def times(self, operators: Sequence[Operator], device: Device, precision: str = "fp32") -> Times:
        """Predicts the seconds of each operator alone; never 0."""
        ...


class Fitting(Protocol):
    """Makes a cost model from measurements."""

    def __call__(self, timings: Sequence[Timing]) -> CostModel:
        """Fits a cost model to these timings."""
        ...


LEAST_S = 1e-9
"""Seconds that every operator is predicted to take at least."""
FARTHEST = 4.0
"""Largest factor by which an interval is widened for distance from the measurements."""


def roofline_s(operators: Sequence[Operator], device: Device, precision: str = "fp32") -> FloatArray:
    """Returns the least seconds a device could need, max(FLOPs / peak, bytes / bandwidth), plus its launch cost.

    A launch is added, not compared: it comes before the work.
    """
    peak, plain = device.peak(precision), device.peak("fp32")
    flops = np.array([each.flops for each in operators], np.float64)
    peaks = np.array([peak if each.kind.arithmetic else plain for each in operators], np.float64)
    moved = moved_bytes(operators, precision)
    busy = np.maximum(flops / peaks, moved / device.bandwidth)
    return np.asarray(np.maximum(busy + device.launch_us * 1e-6, LEAST_S), np.float64)


def moved_bytes(operators: Sequence[Operator], precision: str) -> FloatArray:
    """Returns the bytes moved at a precision; captures are made at the model's own."""
    from elastane.predict.devices import PRECISIONS

    sizes = {"float64": 8.0, "bfloat16": 2.0, "float16": 2.0}
    scale = [min(PRECISIONS[precision] / sizes.get(each.dtype, 4.0), 1.0) for each in operators]
    return np.array([each.bytes for each in operators], np.float64) * np.array(scale, np.float64)
