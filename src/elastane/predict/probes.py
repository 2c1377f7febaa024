"""Keeps the correction factors from probing a card, one per kind of operator, in a small JSON file per card."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from elastane.codec import decoded, encoded
from elastane.errors import ElastaneError
from elastane.kit.atomic_files import write_atomically
from elastane.predict.costs.contract import CostModel, Timing
from elastane.predict.operators import Kind
from elastane.textfiles import read_json

VERSION = 1


@dataclass(frozen=True)
class CardProbes:
    """Factors by which a card is slower (above 1) or faster than predicted.  ``made_at_s`` is Unix time."""

    device: str
    made_at_s: float
    torch: str
    layers: int
    operators: int
    factors: Mapping[str, float]
    version: int = VERSION

    @property
    def by_kind(self) -> dict[Kind, float]:
        """Maps each kind of operator to its correction factor."""
        return {Kind(name): factor for name, factor in self.factors.items()}

    def save(self, path: Path) -> None:
        """Writes the file atomically: whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(encoded(self), indent=1) + "\n")


def factors_of(model: CostModel, timings: Sequence[Timing]) -> dict[Kind, float]:
    """Returns measured over predicted time per kind: the median over operators, weighted by their time.

    Many tiny operators say little about a step; the few long ones are what it consists of.
    """
    found: dict[Kind, list[tuple[float, float]]] = defaultdict(list)
    for each in timings:
        if each.seconds > 0.0 and each.operator.kind is not Kind.UNKNOWN:
            predicted = model.times([each.operator], each.device, each.precision).total
            found[each.operator.kind].append((each.seconds / predicted, each.seconds))
    return {kind: _weighted_median(pairs) for kind, pairs in found.items()}


def _weighted_median(pairs: Sequence[tuple[float, float]]) -> float:
    half, seen = sum(weight for _, weight in pairs) / 2.0, 0.0
    for value, weight in sorted(pairs):
        seen += weight
        if seen >= half:
            return value
    return median(value for value, _ in pairs)


def load_probes(path: Path) -> CardProbes | None:
    """Reads the probes of a card; None if it has not been probed."""
    if not path.exists():
        return None
    try:
        document = read_json(path)
        if not isinstance(document, dict) or document.get("version") != VERSION:
            raise ValueError("it is of another version")
        return decoded(CardProbes, document)
    except (ElastaneError, ValueError) as error:
        raise ElastaneError(
            f"the probes {path} cannot be used: {error}; run: elastane predict probe"
        ) from error
