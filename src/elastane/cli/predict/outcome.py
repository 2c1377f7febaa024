"""Compares a running training with the prediction that ``predict step --json`` made for it."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elastane.codec import decoded
from elastane.errors import ElastaneError

if TYPE_CHECKING:
    from elastane.predict.eta.log_session import LogWatch
    from elastane.predict.outcomes import Outcome, Predicted


@dataclass(frozen=True)
class _Quantiles:
    """Quantiles of a duration in seconds, as ``predict step --json`` writes them."""

    p05: float
    p50: float
    p95: float


@dataclass(frozen=True)
class _Said:
    """The part of a document of ``predict step --json`` that is needed here."""

    device: str
    step_s: _Quantiles
    kappa: float


def read_predicted(path: Path) -> Predicted:
    """Reads the prediction from a file that ``predict step --json`` wrote for one device.

    Raises:
        ElastaneError: the file is no such document, or it predicts several devices.
    """
    from elastane.textfiles import read_json

    document = read_json(path)
    steps = document.get("steps") if isinstance(document, dict) else None
    if not isinstance(steps, list):
        raise ElastaneError(f"{path} is not what predict step --json writes: it has no list of steps")
    if len(steps) != 1:
        raise ElastaneError(f"{path} predicts {len(steps)} devices; the run is on one")
    try:
        return _predicted(decoded(_Said, steps[0]))
    except (ValueError, ElastaneError) as error:
        raise ElastaneError(f"{path} is not what predict step --json writes: {error}") from None


def _predicted(said: _Said) -> Predicted:
    from elastane.predict.interval import Interval
    from elastane.predict.outcomes import Predicted

    if not (0.0 < said.kappa < math.inf and said.step_s.p50 > 0.0):
        raise ValueError("kappa and step_s must be above 0")
    return Predicted(said.device, Interval(said.step_s.p05, said.step_s.p50, said.step_s.p95), said.kappa)


class Judge:
    """Compares a run with its prediction once the time of its steps is known, and saves the outcome."""

    def __init__(self, predicted: Predicted, log: Path) -> None:
        self.outcome: Outcome | None = None
        self._predicted, self._run = predicted, str(log.resolve())

    def look(self, watch: LogWatch) -> None:
        """Makes the comparison, once, as soon as enough steps were seen of a run with one worker."""
        from elastane.predict.interval import Unknown
        from elastane.predict.outcomes import COMPARED, remember
        from elastane.predict.profile import history_path

        engine = watch.engine
        alone = watch.workers in (None, 1)  # steps of several also hold their exchange
        if self.outcome is not None or engine is None or engine.steps < COMPARED or not alone:
            return
        step_s = engine.step_s
        if not isinstance(step_s, Unknown) and step_s.middle > 0.0:
            self.outcome = self._predicted.outcome(step_s.middle, time.time(), self._run)
            remember(history_path(), self.outcome)

    @property
    def ratio(self) -> float | None:
        """Measured ÷ predicted time of a step, κ included; None as long as it is unknown."""
        return None if self.outcome is None else self.outcome.measured_s / self._predicted.step_s.middle
