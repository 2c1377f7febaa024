"""What ``predict step --json`` said of a run that is now under way, and what became of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastane.errors import ElastaneError

if TYPE_CHECKING:
    from elastane.predict.eta.log_session import LogWatch
    from elastane.predict.outcomes import Outcome, Predicted


def read_predicted(path: Path) -> Predicted:
    """The prediction in a file that ``predict step --json`` wrote for one device.

    Raises:
        ElastaneError: it is none, or it is of several devices.
    """
    from elastane.predict.interval import Interval
    from elastane.predict.outcomes import Predicted
    from elastane.textfiles import read_json

    try:
        steps: list[Any] = read_json(path)["steps"]
        if len(steps) != 1:
            raise ElastaneError(f"{path} predicts {len(steps)} devices; the run is on one")
        said, step_s = steps[0], steps[0]["step_s"]
        return Predicted(said["device"], Interval(step_s["p05"], step_s["p50"], step_s["p95"]), said["kappa"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, ElastaneError):
            raise
        raise ElastaneError(f"{path} is not what predict step --json writes: {error}") from error


class Judge:
    """Compares a run with its prediction once it is known how long its steps take, and keeps the result."""

    def __init__(self, predicted: Predicted, log: Path) -> None:
        self.outcome: Outcome | None = None
        self._predicted, self._run = predicted, str(log.resolve())

    def look(self, watch: LogWatch) -> None:
        """Whether there is enough to tell by now."""
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
        """Measured over predicted, κ included; None as long as it is not known."""
        return None if self.outcome is None else self.outcome.measured_s / self._predicted.step_s.middle
