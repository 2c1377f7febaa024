"""Composes the times of operators to a whole step, and models the error of that prediction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elastane.predict.interval import Z90

ENOUGH_STEPS = 10
"""Networks from which on the spread of whole steps is learnt from them."""
_MOST = 1e9
"""Largest valid figure of a step."""
NOISE_SD = 0.04
"""Log standard deviation of a measurement on a machine that is hardly disturbed; no interval is narrower."""
HALF, NINE_IN_TEN = 0.7648923284043466, 2.3533634348018264
"""Quantiles of the absolute error, in scales of Student's t with 3 degrees of freedom, for 50 % and 90 % of errors.

Errors of whole networks have far heavier tails than a normal distribution (``benchmarks.predict.coverage``).
"""


@dataclass(frozen=True)
class WholeStep:
    """A whole network's step: seconds in its operators, calls, and seconds in all.

    ``predicted_s`` is the operators' time by a model fitted without this network, ``predicted_sd`` the log standard
    deviation of that; both 0 without such a model.
    """

    operators_s: float
    calls: int
    whole_s: float
    predicted_s: float = 0.0
    predicted_sd: float = 0.0

    def __post_init__(self) -> None:
        numbers = (self.operators_s, self.calls, self.whole_s, self.predicted_s, self.predicted_sd)
        if not (all(0.0 <= each <= _MOST for each in numbers) and self.whole_s > 0.0):
            raise ValueError(f"a whole step has figures from 0 to {_MOST:g}, whole_s above 0")


@dataclass(frozen=True)
class Composition:
    """The model of a step: ``factor``·Σ + ``per_call_s``·calls + ``per_step_s``, with the spread of its error.

    Where networks were left out of the fit to test it, ``usual_sd`` is the model's usual uncertainty of their
    operators, and ``log_sd`` the spread of a network with that uncertainty: see ``spread``.
    """

    factor: float = 1.07
    per_call_s: float = 0.0
    log_sd: float = 0.15
    usual_sd: float = 0.0
    per_step_s: float = 0.0

    def whole_s(self, operators_s: float, calls: int) -> float:
        """Returns the seconds of a step whose operators take so long."""
        return self.factor * operators_s + self.per_call_s * calls + self.per_step_s

    def spread(self, doubt: float) -> float:
        """Returns the log standard deviation of a step, given that of its operators; half of it is constant."""
        return self.log_sd * (doubt + self.usual_sd) / (2.0 * self.usual_sd)


def composition(steps: tuple[WholeStep, ...]) -> Composition:
    """Fits the composition to measured steps; returns the default for fewer than four."""
    if len(steps) < 4:
        return Composition()
    from scipy.optimize import nnls

    whole = np.array([each.whole_s for each in steps])
    parts = np.array([[each.operators_s, each.calls, 1.0] for each in steps]) / whole[:, None]
    size = parts.max(axis=0)  # no solver copes with columns of very different sizes
    found, _ = nnls(parts / size, np.ones(len(steps)))
    factor, per_call, per_step = (float(each) for each in found / size)
    left = np.log(np.maximum(parts @ (found / size), 1e-9))
    spread = max(float(np.quantile(np.abs(left), 0.68)), 0.02)
    known = Composition(factor, per_call, spread, per_step_s=per_step)
    asked = [each for each in steps if each.predicted_s > 0.0]
    return known if len(asked) < ENOUGH_STEPS else _tried(known, asked)


def _tried(known: Composition, steps: Sequence[WholeStep]) -> Composition:
    """Corrects a composition by networks left out of the fit: the middle and the size of their errors.

    Errors are divided by (uncertainty + usual uncertainty) before they are compared, as in normalised conformal
    prediction (Papadopoulos et al. 2008, Lei et al. 2018).  Their median gives the border, by the tails of a Student t:
    of a few dozen networks the worst few, often badly measured ones, would decide a quantile near the border or a mean.
    """
    errors = np.log([known.whole_s(each.predicted_s, each.calls) / each.whole_s for each in steps])
    # Few networks say little about the middle, so that it is drawn towards no error.
    middle = float(np.median(errors)) * len(steps) / (len(steps) + 10.0)
    doubts = np.array([each.predicted_sd for each in steps])
    usual = max(float(np.median(doubts)), 1e-6)
    off = np.abs(errors - middle) * 2.0 * usual / (doubts + usual)
    return Composition(
        factor=known.factor * math.exp(-middle),
        per_call_s=known.per_call_s * math.exp(-middle),
        per_step_s=known.per_step_s * math.exp(-middle),
        log_sd=max(float(np.median(off)) * NINE_IN_TEN / HALF / Z90, NOISE_SD),
        usual_sd=usual,
    )
