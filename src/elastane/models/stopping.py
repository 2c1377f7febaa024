"""Forecasts the end of a job that stops once its loss has converged, where no amount of work was declared.

A job may declare, in place of an amount of work, that it ends once its loss fell by less than δ per epoch, several
epochs in a row.  The fitted loss curve predicts when that begins; where the curve cannot be trusted there is no
forecast, and policies must do without (Peng et al., Optimus, EuroSys 2018, section 3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from elastane.errors import ElastaneError
from elastane.models.convergence import PATIENCE_EPOCHS, forecast
from elastane.models.estimate import Estimate, Provenance


@dataclass(frozen=True, slots=True)
class StopRule:
    """The owner's end: loss decrease per epoch below ``delta`` of the largest loss, ``patience`` epochs in a row.

    ``epoch_work`` is the work of one epoch, in the unit of the job's speed.
    """

    epoch_work: float
    delta: float = 0.02
    patience: int = PATIENCE_EPOCHS

    def __post_init__(self) -> None:
        if not self.epoch_work > 0.0 or not 0.0 < self.delta < 1.0 or self.patience < 1:
            raise ElastaneError(f"not a rule by which a job could end: {self}")

    def expected_end(self, losses: Sequence[tuple[float, float]]) -> Estimate | None:
        """Work after which the job will end, from (work, loss) so far; None unless the forecast is trusted.

        The fit says from which epoch on the decrease is small enough; the patience comes on top.  A job that
        should have ended and did not is one epoch from its end.
        """
        if not losses:
            return None
        epochs = [work / self.epoch_work for work, _ in losses]
        found = forecast(epochs, [loss for _, loss in losses], self.delta)
        left, curve = found.remaining_epochs, found.curve
        if left is None or curve is None:
            return None
        end = max(curve.flat_from(self.delta) + self.patience, epochs[-1] + 1.0)
        return Estimate(end * self.epoch_work, left.std * self.epoch_work, left.count, Provenance.FITTED)
