"""Implements our cost model: the ratio of an operator's time to its roofline, learnt per kind from measurements.

    log t = log t_roofline(operator, device) + offset(name) + f_kind(features) ± conformal error

The ratio is learnt, not the time: most of what differs between devices and sizes is in the roofline, so the ratio
carries over to devices that were never measured.  f is a Gaussian process for hundreds of rows, boosted trees for
thousands, a median for a handful.  Errors of rows left out of the fit (grouped by shape, so that no shape is on both
sides) scale the interval to cover nine in ten; an operator far from everything measured gets a wider one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Protocol
from zlib import crc32

import numpy as np
from scipy.spatial import cKDTree

from elastane.errors import ElastaneError
from elastane.models.speed import FloatArray, IntArray
from elastane.predict.costs.contract import FARTHEST, LEAST_S, Basis, Times, Timing, roofline_s
from elastane.predict.costs.features import features
from elastane.predict.costs.gaussian import MOST_ROWS, GaussianProcess, standard
from elastane.predict.costs.simple import Roofline
from elastane.predict.costs.trees import Trees, fit_trees
from elastane.predict.devices import Device
from elastane.predict.interval import Z90
from elastane.predict.operators import Kind, Operator

FOLDS = 5
LEAST_ROWS = 12
OFTEN = 30
"""Measurements of one name from which on it has a model of its own."""
TREES_FROM = 2000
ROOM = 0.3
_SHRINK = 2.0
TRENDING = frozenset({Kind.CONVOLUTION, Kind.CONVOLUTION_BACKWARD})
"""Kinds whose trees stand on a trend: real networks' convolutions are larger than published rows, products are not."""

Growing = Callable[[FloatArray, FloatArray], Trees]


class Regressor(Protocol):
    """Learns log ratios from features."""

    def predict(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Returns mean and standard deviation of the log ratio of each row."""
        ...


@dataclass(frozen=True)
class Flat:
    """A regressor that predicts the same ratio for all rows, for a kind with few measurements."""

    value: float
    sd: float

    def predict(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Returns the constant and its standard deviation for every row."""
        return np.full(len(rows), self.value), np.full(len(rows), self.sd)


@dataclass(frozen=True)
class Boosted:
    """A regressor of boosted trees with one standard deviation for all rows."""

    trees: Trees
    sd: float = 1.0

    def predict(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Returns the sum of all trees, and the standard deviation, for every row."""
        return self.trees.predict(rows), np.full(len(rows), self.sd)


@dataclass(frozen=True, eq=False)
class KindModel:
    """The fitted model of one kind of operators, or of one name of that kind."""

    kind: Kind
    regressor: Regressor
    offsets: dict[str, float]
    strange_sd: float
    """Spread of the offsets, added to the deviation of a name that was never measured."""
    conformal: float
    """Factor on the regressor's own standard deviation, from errors left out of the fit."""
    tree: cKDTree
    centre: FloatArray
    scale: FloatArray
    usual_gap: float
    least: float
    most: float
    """Limits of the log ratio: those measured, with some room, so that a trend is not extrapolated without end."""
    shift: float = 0.0
    """Correction from probes, added to every log ratio."""

    def ratios(self, names: Sequence[str], rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Returns the log ratio, its standard deviation, and the distance from the measurements, per row."""
        mean, sd = self.regressor.predict(rows)
        known = np.array([name in self.offsets for name in names])
        mean = mean + np.array([self.offsets.get(name, 0.0) for name in names])
        mean = np.clip(mean, self.least, self.most) + self.shift
        gaps = self.tree.query((rows - self.centre) / self.scale)[0] / self.usual_gap
        widening = np.clip(gaps, 1.0, FARTHEST)
        sd = sd * self.conformal * widening + np.where(known, 0.0, self.strange_sd)
        return mean, np.asarray(sd, np.float64), np.asarray(gaps, np.float64)


@dataclass(frozen=True, eq=False)
class RatioModel:
    """One ``KindModel`` per name that was measured often, one per kind for the rest; else the roofline."""

    kinds: dict[Kind, KindModel]
    names: dict[str, KindModel]
    name: str = "ours"
    basis: Basis = Basis.CALIBRATED
    otherwise: Roofline = Roofline()

    @classmethod
    def fit(cls, timings: Sequence[Timing], basis: Basis = Basis.CALIBRATED, rounds: int = 400) -> RatioModel:
        """Fits the model to measurements of any number of devices."""
        if not timings:
            raise ElastaneError("there are no timings to learn from")
        kinds: dict[Kind, list[Timing]] = defaultdict(list)
        names: dict[str, list[Timing]] = defaultdict(list)
        for each in timings:
            if each.seconds > 0.0 and each.operator.kind is not Kind.UNKNOWN:
                kinds[each.operator.kind].append(each)
                names[each.operator.name].append(each)
        often = {
            name: _fit_kind(rows, rounds)
            for name, rows in names.items()
            if OFTEN <= len(rows) < len(kinds[rows[0].operator.kind])
        }
        return cls({kind: _fit_kind(rows, rounds) for kind, rows in kinds.items()}, often, basis=basis)

    def times(self, operators: Sequence[Operator], device: Device, precision: str = "fp32") -> Times:
        """Predicts kind by kind; kinds without a model fall back to the roofline."""
        fallback = self.otherwise.times(operators, device, precision)
        seconds, log_sd = fallback.seconds.copy(), fallback.log_sd.copy()
        distance = np.full(len(operators), FARTHEST)
        for model, index in self._by_model(operators):
            asked = [operators[i] for i in index]
            rows = features(asked, device, precision)
            mean, sd, gaps = model.ratios([each.name for each in asked], rows)
            seconds[index] = roofline_s(asked, device, precision) * np.exp(np.clip(mean, -10.0, 10.0))
            log_sd[index], distance[index] = sd, gaps
        return Times(np.maximum(seconds, LEAST_S), log_sd, distance)

    def _by_model(self, operators: Sequence[Operator]) -> Iterator[tuple[KindModel, list[int]]]:
        places = defaultdict(list)
        for index, each in enumerate(operators):
            places[(each.kind, each.name if each.name in self.names else "")].append(index)
        for (kind, name), found in places.items():
            model = self.names[name] if name else self.kinds.get(kind)
            if model is not None:
                yield model, found

    def rescaled(self, factors: dict[Kind, float]) -> RatioModel:
        """Returns the model with all times multiplied by a factor per kind, as measured by probes."""

        def moved(model: KindModel) -> KindModel:
            return replace(model, shift=model.shift + math.log(factors.get(model.kind, 1.0)))

        return replace(
            self,
            kinds={kind: moved(model) for kind, model in self.kinds.items()},
            names={name: moved(model) for name, model in self.names.items()},
        )


def probe_factors(model: RatioModel, probes: Sequence[Timing]) -> dict[Kind, float]:
    """Returns measured over predicted time per kind: the median over probed operators."""
    found = defaultdict(list)
    for each in probes:
        predicted = model.times([each.operator], each.device, each.precision).total
        found[each.operator.kind].append(each.seconds / predicted)
    return {kind: median(ratios) for kind, ratios in found.items()}


def _fit_kind(timings: Sequence[Timing], rounds: int) -> KindModel:
    rows, targets = _table(timings)
    names = [each.operator.name for each in timings]
    folds = np.array(
        [crc32(repr((each.operator.name, each.operator.dims)).encode()) % FOLDS for each in timings]
    )
    offsets, strange = _offsets(names, targets)
    shift = np.array([offsets[name] for name in names])
    kind = timings[0].operator.kind
    grow = partial(fit_trees, rounds=rounds, trend=kind in TRENDING)
    regressor = _regress(rows, targets - shift, grow)
    conformal = _conformal(rows, targets - shift, folds, regressor, grow)
    centre, scale = standard(rows)
    tree = cKDTree((rows - centre) / scale)
    gaps = np.asarray(tree.query((rows - centre) / scale, k=min(2, len(rows)))[0]).reshape(len(rows), -1)[:, -1]
    usual = max(float(np.quantile(gaps, 0.9)), 0.05 * math.sqrt(rows.shape[1]))
    least, most = float(targets.min()) - ROOM, float(targets.max()) + ROOM
    return KindModel(kind, regressor, offsets, strange, conformal, tree, centre, scale, usual, least, most)


def _conformal(
    rows: FloatArray, targets: FloatArray, folds: IntArray, whole: Regressor, grow: Growing
) -> float:
    """Returns the factor on the regressor's own deviation that makes it cover nine in ten left-out rows."""
    scores: list[float] = []
    # Trees are slow to fit and have rows in plenty: one part left out is enough.
    for fold in (0,) if len(rows) >= TREES_FROM else range(FOLDS):
        kept = folds != fold
        if len(rows) < LEAST_ROWS or kept.all() or kept.sum() < LEAST_ROWS // 2:
            continue
        mean, sd = _regress(rows[kept], targets[kept], grow, whole).predict(rows[~kept])
        if isinstance(whole, Boosted):
            sd = np.full_like(sd, whole.sd)
        scores.extend(np.abs(targets[~kept] - mean) / sd)
    return max(float(np.quantile(scores, 0.9)) / Z90, 0.3) if scores else 1.5


def _table(timings: Sequence[Timing]) -> tuple[FloatArray, FloatArray]:
    """Returns features and log ratios, in the order of ``timings``."""
    by_device = defaultdict(list)
    for index, each in enumerate(timings):
        by_device[(each.device.name, each.precision)].append(index)
    rows: list[FloatArray | None] = [None] * len(timings)
    targets = np.zeros(len(timings))
    for (_, precision), found in by_device.items():
        operators, device = [timings[i].operator for i in found], timings[found[0]].device
        table = features(operators, device, precision)
        roof = roofline_s(operators, device, precision)
        for place, i in enumerate(found):
            rows[i] = table[place]
            targets[i] = math.log(timings[i].seconds / roof[place])
    return np.array(rows, np.float64), targets


def _offsets(names: Sequence[str], targets: FloatArray) -> tuple[dict[str, float], float]:
    """Returns each name's offset from its kind, shrunk towards 0 where it was measured rarely, and their spread."""
    centre = float(np.median(targets))
    by_name = defaultdict(list)
    for name, target in zip(names, targets, strict=True):
        by_name[name].append(float(target) - centre)
    if len(by_name) == 1:
        return {names[0]: 0.0}, 0.3
    shrunk = {name: sum(each) / (len(each) + _SHRINK) for name, each in by_name.items()}
    return shrunk, max(float(np.std(list(shrunk.values()))), 0.1)


def _regress(rows: FloatArray, targets: FloatArray, grow: Growing, like: Regressor | None = None) -> Regressor:
    """Fits a regressor that suits the number of rows; ``like`` is one that was fitted to these rows and more."""
    if len(rows) < LEAST_ROWS:
        return Flat(float(np.median(targets)), max(float(np.std(targets)), 0.25))
    if isinstance(like, Boosted) or (like is None and len(rows) >= TREES_FROM):
        trees = grow(rows, targets)
        return Boosted(trees, max(float(np.std(targets - trees.predict(rows))), 1e-3))
    if len(rows) > MOST_ROWS:
        kept = np.random.default_rng(0).choice(len(rows), MOST_ROWS, replace=False)
        rows, targets = rows[kept], targets[kept]
    return GaussianProcess.fit(rows, targets, like if isinstance(like, GaussianProcess) else None)
