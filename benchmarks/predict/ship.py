"""``python -m benchmarks.predict.ship``: writes the fits that Elastane ships, from ``../shared/data/layers``.

Rows of Justus et al. are whole layers of TensorFlow; from them come forward convolutions (rows without an optimizer)
and backward ones (what is left of a training row after forward and update).  The harness's own time per call, about
that of its smallest layer, is taken off, and rows of little more than that are left out.  Rows of NeuSight are matrix
products as they are.  Nothing is written if the fits are worse on rows left out than they have to be.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import numpy as np

from benchmarks.figures import shared_data
from elastane.codec import encoded
from elastane.models.speed import FloatArray
from elastane.predict.costs.contract import Timing, roofline_s
from elastane.predict.costs.features import features
from elastane.predict.costs.ratio import ROOM, TRENDING
from elastane.predict.costs.shipped import SIZES, KindFit, ShippedFits
from elastane.predict.costs.trees import Tree, Trees, fit_trees
from elastane.predict.devices import Device, find
from elastane.predict.interval import Z90
from elastane.predict.operators import Kind, Operator, Phase
from elastane.predict.timings.files import load_timings, rows_of
from elastane.predict.timings.published import STATE_PASSES, ConvolutionRow, seconds

CARDS = ("1080ti", "k40", "k80", "m60", "p100")
TARGET = Path("src/elastane/predict/data/fits.json")
ROUNDS, LEAVES, RATE, CLUSTERS = 200, 24, 0.12, 160
MOST_ERROR = {Kind.CONVOLUTION: 16.0, Kind.CONVOLUTION_BACKWARD: 20.0, Kind.MATMUL: 16.0}
"""Median percent on rows left out, beyond which nothing is written."""
LEAST_OVER_HARNESS = 2.5
UPDATE_SHARE, MOST_UPDATE = 0.75, 0.3
"""Share of the bandwidth that an update reaches, and the part of a row's time it may be."""
SOURCE = (
    "layer timings of Justus et al. (CDECatapult/ml-performance-prediction, Apache-2.0; TensorFlow 1.10) and "
    "kernel timings of NeuSight (sitar-lab/NeuSight, MIT; PyTorch 2.1), both fp32"
)

Ratios = Callable[[Sequence[Operator], Device], FloatArray]


@dataclass(frozen=True)
class Table:
    """Features and log ratios of one kind on all cards."""

    rows: FloatArray
    targets: FloatArray
    cards: Sequence[str]

    @classmethod
    def of(cls, timings: Sequence[Timing]) -> Table:
        """Card by card."""
        cards = list(dict.fromkeys(each.device.name for each in timings))
        groups = [[each for each in timings if each.device.name == card] for card in cards]
        tables = [features([each.operator for each in group], group[0].device) for group in groups]
        roofs = [roofline_s([each.operator for each in group], group[0].device) for group in groups]
        targets = [
            np.log(np.array([each.seconds for each in group]) / roof)
            for group, roof in zip(groups, roofs, strict=True)
        ]
        names = [card for card, group in zip(cards, groups, strict=True) for _ in group]
        return cls(np.vstack(tables), np.concatenate(targets), names)

    def part(self, mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Table:
        """Some of the rows."""
        return Table(
            self.rows[mask], self.targets[mask], [c for c, kept in zip(self.cards, mask, strict=True) if kept]
        )


def forward_convolutions(card: str) -> list[Timing]:
    """Rows without an optimizer."""
    device, found = find(card), []
    harness, raw = _convolution_rows(card, training=False)
    for layer, taken in raw:
        operator = Operator(
            "aten::convolution", Kind.CONVOLUTION, Phase.FORWARD, layer.flops, 4.0 * layer.words, layer.dims
        )
        found.append(Timing(operator, device, taken - harness))
    return found


def backward_convolutions(card: str, forward_s: Ratios) -> list[Timing]:
    """What training rows leave after forward, as fitted, and the update of everything, as the bandwidth allows."""
    device, found = find(card), []
    harness, raw = _convolution_rows(card, training=True)
    ahead = forward_s(
        [
            Operator(
                "aten::convolution", Kind.CONVOLUTION, Phase.FORWARD, layer.flops, 4.0 * layer.words, layer.dims
            )
            for layer, _ in raw
        ],
        device,
    )
    for (layer, taken), forward in zip(raw, ahead, strict=True):
        update = 4.0 * STATE_PASSES[layer.optimizer] * layer.words / device.bandwidth / UPDATE_SHARE
        left = taken - harness - float(forward) - update
        if update > MOST_UPDATE * taken or left < 0.3 * taken:
            continue
        moved = 4.0 * (layer.words + layer.data + layer.weights)
        operator = Operator(
            "aten::convolution_backward",
            Kind.CONVOLUTION_BACKWARD,
            Phase.FORWARD,
            2.0 * layer.flops,
            moved,
            layer.dims,
        )
        found.append(Timing(operator, device, left))
    return found


def products() -> list[Timing]:
    """Matrix products of both files."""
    sets = load_timings(shared_data("data", "layers"))
    return [row for each in sets if each.group.startswith("modern_") for row in each.timings]


def _convolution_rows(card: str, training: bool) -> tuple[float, list[tuple[ConvolutionRow, float]]]:
    """The harness's own seconds per call, and the layers that take well more than that."""
    rows = rows_of(shared_data("data", "layers", f"convolution_{card}.csv.gz"))
    read = [(ConvolutionRow.read(row), seconds(row)) for row in rows]
    kept = [(layer, taken) for layer, taken in read if bool(layer.optimizer) == training]
    harness = float(np.quantile([taken for _, taken in kept], 0.001))
    return harness, [(layer, taken) for layer, taken in kept if taken > LEAST_OVER_HARNESS * harness]


def fitted(kind: Kind, timings: Sequence[Timing]) -> KindFit:
    """Trees for all cards together, card by card offsets, and errors of rows and cards left out."""
    table = Table.of(timings)
    left = np.random.default_rng(0).random(len(table.targets)) < 0.1
    known, new = table.part(~left), table.part(left)
    trees = _trees(known, kind)
    offsets = _offsets(trees, known)
    errors = new.targets - trees.predict(new.rows) - np.array([offsets[card] for card in new.cards])
    per_card = {
        card: 100 * float(np.median(np.abs(np.expm1(-errors[np.array(new.cards) == card])))) for card in offsets
    }
    print(f"{kind.value}: {len(table.targets)} rows; median error on rows left out, %:", _rounded(per_card))
    if max(per_card.values()) > MOST_ERROR[kind]:
        sys.exit(
            f"{kind.value}: {max(per_card.values()):.1f} % is more than {MOST_ERROR[kind]} %; nothing written"
        )
    strange = _unseen(table, kind)
    print(
        "  factor of cards left out against the others:",
        _rounded({c: float(np.exp(v)) for c, v in strange.items()}),
    )
    mean, scale, centres, gap = _hull(known.rows)
    return KindFit(
        trees=trees,
        sd=round(float(np.quantile(np.abs(errors), 0.9)) / Z90, 4),
        offsets={card: round(each, 4) for card, each in offsets.items()},
        unseen_sd=round(float(np.sqrt(np.mean(np.square(list(strange.values()))))), 4),
        mean=mean,
        scale=scale,
        centres=centres,
        usual_gap=gap,
        rows=len(table.targets),
        least=round(float(table.targets.min()) - ROOM, 2),
        most=round(float(table.targets.max()) + ROOM, 2),
    )


def _trees(table: Table, kind: Kind) -> Trees:
    fit = fit_trees(table.rows, table.targets, rounds=ROUNDS, leaves=LEAVES, rate=RATE, trend=kind in TRENDING)
    slopes = tuple(round(each, 7) for each in fit.slopes)
    return Trees(round(fit.base, 5), tuple(_short(each) for each in fit.trees), slopes)


def _short(tree: Tree) -> Tree:
    """Digits that matter; what inner nodes would say is never asked."""
    said = zip(tree.value, tree.feature, strict=True)
    return replace(
        tree,
        threshold=tuple(round(each, 4) for each in tree.threshold),
        value=tuple(round(each, 5) if feature < 0 else 0 for each, feature in said),
    )


def _offsets(trees: Trees, table: Table) -> dict[str, float]:
    errors, cards = table.targets - trees.predict(table.rows), np.array(table.cards)
    return {card: float(np.median(errors[cards == card])) for card in dict.fromkeys(table.cards)}


def _unseen(table: Table, kind: Kind) -> dict[str, float]:
    """By how much each card differs, in the median, from what the others say about it."""
    cards = np.array(table.cards)
    found = {}
    for card in dict.fromkeys(table.cards):
        trees, own = _trees(table.part(cards != card), kind), table.part(cards == card)
        found[card] = float(np.median(own.targets - trees.predict(own.rows)))
    return found


def _hull(
    rows: FloatArray,
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[tuple[float, ...], ...], float]:
    from sklearn.cluster import KMeans  # type: ignore[import-untyped]

    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(scale > 1e-9, scale, 1.0)
    standard = (rows - mean) / scale
    clusters = KMeans(CLUSTERS, random_state=0, n_init=1).fit(standard)
    gaps = np.linalg.norm(standard - clusters.cluster_centers_[clusters.labels_], axis=1)
    centres = tuple(tuple(round(float(each), 2) for each in row) for row in clusters.cluster_centers_)
    short = tuple(tuple(round(float(each), 4) for each in row) for row in (mean, scale))
    return short[0], short[1], centres, round(float(np.quantile(gaps, 0.9)), 3)


def _rounded(figures: Mapping[str, float]) -> dict[str, float]:
    return {name: round(each, 2) for name, each in figures.items()}


def main() -> None:
    """Fit all kinds and write the file."""
    forward = fitted(Kind.CONVOLUTION, [row for card in CARDS for row in forward_convolutions(card)])

    def forward_s(operators: Sequence[Operator], device: Device) -> FloatArray:
        ratios, _ = forward.ratios(features(operators, device), device.name)
        return np.asarray(roofline_s(operators, device) * np.exp(ratios), np.float64)

    backward = fitted(
        Kind.CONVOLUTION_BACKWARD, [row for card in CARDS for row in backward_convolutions(card, forward_s)]
    )
    kinds = {
        Kind.CONVOLUTION: forward,
        Kind.CONVOLUTION_BACKWARD: backward,
        Kind.MATMUL: fitted(Kind.MATMUL, products()),
    }
    assert set(kinds) == set(SIZES)
    fits = ShippedFits(1, str(date.today()), SOURCE, {kind.value: fit for kind, fit in kinds.items()})
    text = json.dumps(encoded(fits), separators=(",", ":"))
    TARGET.write_text(text + "\n", encoding="utf-8")
    print(f"{TARGET}: {len(text) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
