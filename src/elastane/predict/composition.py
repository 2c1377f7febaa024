"""How operators add up to a whole step, and how far whole steps lie from what was predicted of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elastane.predict.interval import Z90

ENOUGH_STEPS = 10
"""Networks from which the spread of whole steps is learnt."""
_MOST = 1e9
"""Of any figure of a step."""
NOISE_SD = 0.04
"""Of a measurement on a machine that nobody disturbs much; no interval is narrower."""
HALF, NINE_IN_TEN = 0.7648923284043466, 2.3533634348018264
"""How far half and nine in ten of all errors lie from the middle, in scales of Student's t with 3 degrees of freedom.

Errors of whole networks have far heavier tails than a normal distribution (``benchmarks.predict.coverage``).
"""


@dataclass(frozen=True)
class WholeStep:
    """A whole network's step: seconds in its operators, calls, and seconds in all.

    ``predicted_s`` is what a model fitted without this network says its operators take, ``predicted_sd`` how sure it
    is (log standard deviation); 0 if nobody asked.
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
    """How operators add up to a step: ``factor``·Σ + ``per_call_s``·calls + ``per_step_s``, and the spread of the rest.

    Where networks were left out of the fit to try it, ``usual_sd`` is how much the model usually doubted their
    operators, and ``log_sd`` the spread of a network of usual doubt: see ``spread``.
    """

    factor: float = 1.07
    per_call_s: float = 0.0
    log_sd: float = 0.15
    usual_sd: float = 0.0
    per_step_s: float = 0.0

    def whole_s(self, operators_s: float, calls: int) -> float:
        """Seconds of a step whose operators take so long."""
        return self.factor * operators_s + self.per_call_s * calls + self.per_step_s

    def spread(self, doubt: float) -> float:
        """Log standard deviation of a step whose operators are doubted so much; half of it is the same for all."""
        return self.log_sd * (doubt + self.usual_sd) / (2.0 * self.usual_sd)


def composition(steps: tuple[WholeStep, ...]) -> Composition:
    """How operators of these steps added up; the usual figures if there are fewer than four."""
    if len(steps) < 4:
        return Composition()
    from scipy.optimize import nnls

    whole = np.array([each.whole_s for each in steps])
    parts = np.array([[each.operators_s, each.calls, 1.0] for each in steps]) / whole[:, None]
    size = parts.max(axis=0)  # columns of very different sizes would be found by no solver
    found, _ = nnls(parts / size, np.ones(len(steps)))
    factor, per_call, per_step = (float(each) for each in found / size)
    left = np.log(np.maximum(parts @ (found / size), 1e-9))
    spread = max(float(np.quantile(np.abs(left), 0.68)), 0.02)
    known = Composition(factor, per_call, spread, per_step_s=per_step)
    asked = [each for each in steps if each.predicted_s > 0.0]
    return known if len(asked) < ENOUGH_STEPS else _tried(known, asked)


def _tried(known: Composition, steps: Sequence[WholeStep]) -> Composition:
    """Corrected by networks left out: the middle of their errors, and their size in units of the model's own doubt.

    Errors are divided by doubt + usual doubt before they are compared, as in normalised conformal prediction
    (Papadopoulos et al. 2008, Lei et al. 2018).  Their median gives the border, by the tails of a Student t: of a few
    dozen networks the worst few, often badly measured ones, would decide a quantile near the border or a mean.
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
