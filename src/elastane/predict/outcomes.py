"""Keeps a local history of predicted and measured step times, from which the correction κ of a device is fitted.

κ multiplies every predicted step of a device.  It is the median of measured over predicted of the latest runs, shrunk
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
"""Steps of a session after which it is compared with its prediction."""
LATEST = 20
"""Runs from which κ is fitted."""
_DRAWN = 2.0
"""Weight of the prior κ = 1, in runs."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """The seconds of a step as predicted before a run, ``kappa`` included."""

    device: str
    step_s: Interval
    kappa: float = 1.0

    def outcome(self, measured_s: float, at_s: float, run: str = "") -> Outcome:
        """Makes the outcome: the prediction without κ beside the measured seconds."""
        return Outcome(self.device, self.step_s.middle / self.kappa, measured_s, at_s, run)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One session of a run: seconds of a step predicted (without κ) and measured.  ``at_s`` is Unix time."""

    device: str
    predicted_s: float
    measured_s: float
    at_s: float
    run: str = ""
    """A name of the session; of several outcomes with the same name the last counts."""

    @property
    def error(self) -> float:
        """The logarithmic error, log(measured / predicted)."""
        return math.log(self.measured_s / self.predicted_s)


def kappa(outcomes: Sequence[Outcome], device: str, since_s: float = 0.0) -> tuple[float, int]:
    """Returns κ of a device and the number of runs it comes from, those since its calibration (``since_s``)."""
    alike = [each for each in outcomes if each.device == device and each.at_s >= since_s][-LATEST:]
    if not alike:
        return 1.0, 0
    drawn = len(alike) / (len(alike) + _DRAWN)
    return math.exp(drawn * median(each.error for each in alike)), len(alike)


def remember(path: Path, outcome: Outcome) -> None:
    """Appends an outcome to the history file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(encoded(outcome)) + "\n")


def load_outcomes(path: Path) -> tuple[Outcome, ...]:
    """Reads the history, oldest first; broken lines are skipped, so that they never stop predictions."""
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
