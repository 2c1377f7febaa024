"""Implements boosted trees over a linear trend: fitted by scikit-learn (extra), kept as JSON, evaluated with NumPy.

Trees alone are constant beyond the last row they were fitted to.  Real layers are often larger than measured ones, and
their loss against the roofline goes on falling: the trend extrapolates, the trees add what is not linear.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from elastane.errors import ElastaneError
from elastane.models.speed import FloatArray, IntArray

RIDGE = 30.0
"""Ridge penalty of the trend, in rows."""


@dataclass(frozen=True)
class Tree:
    """One tree; node 0 is the root.  A row goes left if its feature is not above the threshold; leaves have −1."""

    feature: tuple[int, ...]
    threshold: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    value: tuple[float, ...]


@dataclass(frozen=True)
class Trees:
    """The sum of all trees, a trend (one slope per feature) and a constant."""

    base: float
    trees: tuple[Tree, ...]
    slopes: tuple[float, ...] = ()

    def predict(self, features: FloatArray) -> FloatArray:
        """Returns one number per row; all rows descend all trees at once."""
        trend = features @ np.array(self.slopes) if self.slopes else np.zeros(len(features))
        return np.asarray(trend + self._curved(features), np.float64)

    def _curved(self, features: FloatArray) -> FloatArray:
        if not self.trees or not len(features):
            return np.full(len(features), self.base)
        nodes = self._nodes
        rows = np.arange(len(features))[None, :]
        at = np.broadcast_to(nodes.roots[:, None], (len(self.trees), len(features)))
        while (inner := nodes.feature[at] >= 0).any():
            left = features[rows, np.maximum(nodes.feature[at], 0)] <= nodes.threshold[at]
            at = np.where(inner, np.where(left, nodes.left[at], nodes.right[at]), at)
        return np.asarray(self.base + nodes.value[at].sum(axis=0), np.float64)

    @cached_property
    def _nodes(self) -> _Nodes:
        sizes = [len(tree.feature) for tree in self.trees]
        roots = np.cumsum([0, *sizes[:-1]])
        shift = np.repeat(roots, sizes)

        def joined(name: str) -> Any:
            return np.concatenate([np.array(getattr(tree, name)) for tree in self.trees])

        left, right = joined("left") + shift, joined("right") + shift
        return _Nodes(roots, joined("feature"), joined("threshold"), left, right, joined("value"))


@dataclass(frozen=True, eq=False)
class _Nodes:
    """All nodes of all trees one after the other."""

    roots: IntArray
    feature: IntArray
    threshold: FloatArray
    left: IntArray
    right: IntArray
    value: FloatArray


def fit_trees(
    features: FloatArray,
    targets: FloatArray,
    *,
    rounds: int = 400,
    leaves: int = 31,
    rate: float = 0.08,
    trend: bool = False,
) -> Trees:
    """Fits boosted trees by squared error, with ``trend`` to the residuals of a ridge regression; deterministic."""
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor  # type: ignore[import-untyped]
    except ImportError:
        raise ElastaneError(
            "fitting trees needs scikit-learn; install it with: pip install scikit-learn"
        ) from None
    model = HistGradientBoostingRegressor(
        max_iter=rounds,
        max_leaf_nodes=leaves,
        learning_rate=rate,
        min_samples_leaf=8,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=0,
    )
    start, slopes = _trend(features, targets) if trend else (0.0, np.zeros(features.shape[1]))
    model.fit(features, targets - start - features @ slopes)
    base = start + float(np.asarray(model._baseline_prediction).ravel()[0])
    trees = tuple(_plain(stage[0].nodes) for stage in model._predictors)
    return Trees(base, trees, tuple(float(each) for each in slopes) if trend else ())


def _trend(features: FloatArray, targets: FloatArray) -> tuple[float, FloatArray]:
    """Fits a ridge regression on standardised features; returns intercept and slopes for the plain ones."""
    mean, spread = features.mean(axis=0), features.std(axis=0)
    scale = np.where(
        spread > 1e-9 * np.maximum(np.abs(mean), 1.0), spread, np.inf
    )  # one that never varied says nothing
    rows, middle = (features - mean) / scale, float(targets.mean())
    inner = rows.T @ rows + RIDGE * np.eye(rows.shape[1])
    slopes = np.linalg.solve(inner, rows.T @ (targets - middle)) / scale
    return middle - float(mean @ slopes), np.asarray(slopes, np.float64)


def _plain(nodes: Any) -> Tree:
    leaf = nodes["is_leaf"].astype(bool)
    return Tree(
        feature=tuple(int(each) for each in np.where(leaf, -1, nodes["feature_idx"])),
        threshold=tuple(float(each) for each in np.where(leaf, 0.0, nodes["num_threshold"])),
        left=tuple(int(each) for each in nodes["left"]),
        right=tuple(int(each) for each in nodes["right"]),
        value=tuple(float(each) for each in nodes["value"]),
    )
