"""Provides the fits that ship with Elastane, from published timings of some cards, for all cards of the catalog.

The timings themselves belong to others and are not here; ``data/fits.json`` holds boosted trees on log(time /
roofline), written by ``python -m benchmarks.predict.ship``.  Three kinds are covered (convolution, its backward,
matrix products), all in fp32; everything else takes the time of the roofline.  The uncertainty grows for a card that
was not measured, for another precision, and for an operator far from what was measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.resources import files

import numpy as np

from elastane.codec import decoded
from elastane.models.speed import FloatArray
from elastane.predict.costs.contract import FARTHEST, LEAST_S, Basis, Times, roofline_s
from elastane.predict.costs.features import features
from elastane.predict.costs.simple import Roofline
from elastane.predict.costs.trees import Trees
from elastane.predict.devices import Device
from elastane.predict.operators import Kind, Operator, Phase

SIZES = {Kind.CONVOLUTION: 8, Kind.CONVOLUTION_BACKWARD: 8, Kind.MATMUL: 4}
"""How many of an operator's dims a fit uses."""
KNOWN_SD, PROBED_SD = 0.18, 0.09
"""Log standard deviation that all operators of a measured card share, without and with probes: clocks and libraries
differ from those of the measurements."""
OTHER_PRECISION_SD = 0.25


@dataclass(frozen=True)
class KindFit:
    """The fit of one kind.  ``centres`` are those of clusters of standardised features, not measured shapes."""

    trees: Trees
    sd: float
    """Log standard deviation: 1.645 times it covers nine in ten of the rows that were left out."""
    offsets: dict[str, float]
    """Offset of the log ratio of each measured card."""
    unseen_sd: float
    """Spread of cards that were left out around the prediction from the others."""
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    centres: tuple[tuple[float, ...], ...]
    usual_gap: float
    rows: int
    least: float
    most: float
    """Limits of the log ratio: those measured, with some room, so that a trend is not extrapolated without end."""

    @cached_property
    def _places(self) -> FloatArray:
        return np.array(self.centres, np.float64)

    def ratios(self, rows: FloatArray, card: str) -> tuple[FloatArray, FloatArray]:
        """Returns the log ratio and the distance from the measurements, per row."""
        standard = (rows - np.array(self.mean)) / np.array(self.scale)
        # A hundred centres: to compare with all of them is quicker than to load a library that searches.
        places = self._places
        squares = (standard**2).sum(axis=1)[:, None] + (places**2).sum(axis=1) - 2.0 * standard @ places.T
        gaps = np.sqrt(np.maximum(squares.min(axis=1), 0.0)) / self.usual_gap
        ratios = np.clip(self.trees.predict(rows) + self.offsets.get(card, 0.0), self.least, self.most)
        return np.asarray(ratios, np.float64), np.asarray(gaps, np.float64)

    def shared_sd(self, card: str) -> float:
        """Returns the log standard deviation that all operators of a card share; larger if it was not measured."""
        return KNOWN_SD if card in self.offsets else math.hypot(KNOWN_SD, self.unseen_sd)


@dataclass(frozen=True)
class ShippedFits:
    """The contents of the file of fits.  ``source`` names the owners of the timings."""

    version: int
    made_on: str
    source: str
    kinds: dict[str, KindFit]

    @cached_property
    def by_kind(self) -> dict[Kind, KindFit]:
        """Maps each kind of operator to its fit."""
        return {Kind(name): fit for name, fit in self.kinds.items()}


@cache
def shipped_fits() -> ShippedFits:
    """Reads the fits that ship with the package."""
    text = files("elastane.predict").joinpath("data/fits.json").read_text(encoding="utf-8")
    return decoded(ShippedFits, json.loads(text))


@dataclass(frozen=True, eq=False)
class Shipped:
    """The shipped fits as a cost model; ``factors`` per kind come from probes of a card."""

    fits: ShippedFits
    factors: Mapping[Kind, float] = field(default_factory=dict)
    name: str = "shipped fit"
    basis: Basis = Basis.RATIO
    otherwise: Roofline = Roofline()

    def times(self, operators: Sequence[Operator], device: Device, precision: str = "fp32") -> Times:
        """Predicts fitted kinds by their fits, the others by the roofline."""
        rest = self.otherwise.times(operators, device, precision)
        seconds, log_sd = rest.seconds.copy(), rest.log_sd.copy()
        shared, distance = np.full(len(operators), rest.shared_sd), np.full(len(operators), FARTHEST)
        for kind, fit in self.fits.by_kind.items():
            index = [place for place, each in enumerate(operators) if each.kind is kind]
            if not index:
                continue
            asked = [_as_fitted(operators[place]) for place in index]
            mean, gaps = fit.ratios(features(asked, device, precision), device.name)
            seconds[index] = roofline_s(asked, device, precision) * np.exp(np.clip(mean, -10.0, 10.0))
            log_sd[index] = fit.sd * np.clip(gaps, 1.0, FARTHEST)
            distance[index] = gaps
            shared[index] = fit.shared_sd(device.name) + (0.0 if precision == "fp32" else OTHER_PRECISION_SD)
        probed = np.array([each.kind in self.factors for each in operators])
        seconds *= np.array([self.factors.get(each.kind, 1.0) for each in operators])
        shared = np.where(probed, PROBED_SD, shared)
        whole = float((seconds * shared).sum() / max(seconds.sum(), LEAST_S))
        return Times(np.maximum(seconds, LEAST_S), log_sd, distance, whole)

    def about(self, device: Device) -> str:
        """Describes the basis of predictions for a device, in a few words."""
        kinds = ", ".join(kind.value for kind, fit in self.fits.by_kind.items() if device.name in fit.offsets)
        if not kinds:
            return "shipped fit of other cards (fp32), roofline for the rest"
        return f"shipped fit (fp32) of this card ({kinds}) and others, roofline for the rest"

    def covered(self, operators: Sequence[Operator], seconds: FloatArray) -> float:
        """Returns the fraction of the time that is spent in fitted kinds."""
        fitted = np.array([each.kind in self.fits.by_kind for each in operators])
        return float(seconds[fitted].sum() / max(float(seconds.sum()), LEAST_S))


def _as_fitted(operator: Operator) -> Operator:
    """Reduces an operator to what the fits use: the first sizes, and no phase."""
    return replace(operator, dims=operator.dims[: SIZES[operator.kind]], phase=Phase.FORWARD)
