"""Scores of the neural network, kept in ``build/bench/predict``: ten trainings of 300 epochs need not be repeated.

A score is used again only if nothing it came from has changed: the timings, the network, how rows are read, left out
and scored, and the version of PyTorch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import torch

import elastane.predict
from elastane.codec import decoded, encoded
from elastane.predict.backtesting.errors import Score
from elastane.predict.backtesting.held_out import NETWORK, held_out
from elastane.predict.costs.layerwise import LayerwiseNetwork
from elastane.predict.timings import TimingSet

FOLDER = Path("build/bench/predict")
_SOURCES = (
    "costs/layerwise.py",
    "backtesting/held_out.py",
    "backtesting/errors.py",
    "timings/published.py",
    "timings/files.py",
    "data/devices.json",
)


def network_score(each: TimingSet) -> Score:
    """Of the network by its own recipe: 300 epochs on all rows that are not left out."""
    name = "-".join(each.name.split())
    path = FOLDER / f"{name}-{_key(each)}.json"
    if path.exists():
        return decoded(Score, json.loads(path.read_text(encoding="utf-8")))
    (found,) = held_out((each,), {NETWORK: LayerwiseNetwork.fit})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(encoded(found.scores[0])) + "\n", encoding="utf-8")
    return found.scores[0]


def _key(each: TimingSet) -> str:
    digest = sha256()
    for part in _origins(each):
        digest.update(part)
    return digest.hexdigest()[:12]


def _origins(each: TimingSet) -> Iterator[bytes]:
    room = Path(elastane.predict.__file__).parent
    yield torch.__version__.encode()
    yield from (room.joinpath(name).read_bytes() for name in _SOURCES)
    yield from (repr((row.operator, row.seconds)).encode() for row in each.timings)
