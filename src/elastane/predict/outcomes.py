"""What runs really took against what was predicted of them: a local history, from which κ is fitted again.

κ multiplies every predicted step of a device.  It is the median of measured over predicted of the latest runs, drawn
towards 1 while they are few: one run beside a busy neighbour must not double all predictions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from elastane.codec import decoded, encoded
from elastane.predict.interval import Interval

COMPARED = 50
"""Steps of a session after which its prediction is judged."""
LATEST = 20
"""Runs from which κ is fitted."""
_DRAWN = 2.0
"""Runs without an error that every history is taken to begin with."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """Seconds of a step as they were predicted before a run, ``kappa`` in them."""

    device: str
    step_s: Interval
    kappa: float = 1.0

    def outcome(self, measured_s: float, at_s: float, run: str = "") -> Outcome:
        """What became of it."""
        return Outcome(self.device, self.step_s.middle / self.kappa, measured_s, at_s, run)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One session of a run: seconds of a step predicted (without κ) and measured.  ``at_s`` is Unix time."""

    device: str
    predicted_s: float
    measured_s: float
    at_s: float
    run: str = ""
    """Whatever tells a session from others; of those with the same name the last counts."""

    @property
    def error(self) -> float:
        """The logarithmic error, log(measured / predicted)."""
        return math.log(self.measured_s / self.predicted_s)


def kappa(outcomes: Sequence[Outcome], device: str, since_s: float = 0.0) -> tuple[float, int]:
    """κ of a device and the number of runs it comes from; older ones than its calibration say nothing about it."""
    alike = [each for each in outcomes if each.device == device and each.at_s >= since_s][-LATEST:]
    if not alike:
        return 1.0, 0
    drawn = len(alike) / (len(alike) + _DRAWN)
    return math.exp(drawn * median(each.error for each in alike)), len(alike)


def remember(path: Path, outcome: Outcome) -> None:
    """Add a line to the history."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(encoded(outcome)) + "\n")


def load_outcomes(path: Path) -> tuple[Outcome, ...]:
    """The history, oldest first; lines that are none are passed over, a broken one must not stop predictions."""
    if not path.exists():
        return ()
    found: dict[str, Outcome] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines()):
        outcome = _outcome(line)
        if outcome is not None:
            name = outcome.run or f"line {number}"
            found.pop(name, None)
            found[name] = outcome
    return tuple(found.values())


def _outcome(line: str) -> Outcome | None:
    try:
        outcome = decoded(Outcome, json.loads(line))
    except (ValueError, RecursionError):
        return None
    sensible = all(0.0 < each < math.inf for each in (outcome.predicted_s, outcome.measured_s))
    return outcome if sensible else None
