"""Boosted trees as plain arrays: fitted by scikit-learn (extra), kept as JSON, evaluated with NumPy alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from elastane.errors import ElastaneError
from elastane.models.speed import FloatArray


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
    """The sum of all trees and a constant."""

    base: float
    trees: tuple[Tree, ...]

    def predict(self, features: FloatArray) -> FloatArray:
        """One number per row."""
        total = np.full(len(features), self.base)
        for tree in self.trees:
            total += _walk(tree, features)
        return total


def fit_trees(
    features: FloatArray, targets: FloatArray, *, rounds: int = 400, leaves: int = 31, rate: float = 0.08
) -> Trees:
    """Boost trees on squared error; the same rows give the same trees."""
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
    model.fit(features, targets)
    base = float(np.asarray(model._baseline_prediction).ravel()[0])
    return Trees(base, tuple(_plain(stage[0].nodes) for stage in model._predictors))


def _plain(nodes: Any) -> Tree:
    leaf = nodes["is_leaf"].astype(bool)
    return Tree(
        feature=tuple(int(each) for each in np.where(leaf, -1, nodes["feature_idx"])),
        threshold=tuple(float(each) for each in np.where(leaf, 0.0, nodes["num_threshold"])),
        left=tuple(int(each) for each in nodes["left"]),
        right=tuple(int(each) for each in nodes["right"]),
        value=tuple(float(each) for each in nodes["value"]),
    )


def _walk(tree: Tree, features: FloatArray) -> FloatArray:
    feature, threshold = np.array(tree.feature), np.array(tree.threshold)
    left, right, value = np.array(tree.left), np.array(tree.right), np.array(tree.value)
    at, rows = np.zeros(len(features), np.intp), np.arange(len(features))
    while True:
        asked = feature[at]
        inner = asked >= 0
        if not inner.any():
            return np.asarray(value[at], np.float64)
        goes_left = features[rows, np.maximum(asked, 0)] <= threshold[at]
        at = np.where(inner, np.where(goes_left, left[at], right[at]), at)
