"""Makes up loss curves for jobs whose ground truth records none, in the shape that Optimus assumes.

Neither the catalog nor measured profiles hold losses.  So that jobs can be run whose owners give a stop rule in place
of epochs, a job is assumed to train for ``EPOCHS`` epochs of equal work and to report

    l(k) = ( 1/(β0·k + β1) + β2 ) · (1 + ε),      ε normal, drawn once per job from its seed,

and the owner's δ is chosen such that the rule holds exactly where the job's work really ends.  Curves of real jobs
are often worse than this: what a forecast achieves here is an upper bound.

====== ==========================================================================================
k      epochs done, counted in equal parts of the work, not those of the application's data set
β      of the application; published for Seq2Seq only (the default), the rest made up around it
δ      decrease per epoch, as a share of the first loss reported, at which the patience begins
====== ==========================================================================================

Reference: Peng et al., Optimus, EuroSys 2018, section 3.1.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from elastane.models.convergence import PATIENCE_EPOCHS, LossCurve
from elastane.models.speed import FloatArray
from elastane.models.stopping import StopRule

EPOCHS = 20
"""About where Optimus's Seq2Seq ends with δ = 1 %: flat from epoch 17, and three epochs of patience."""

NOISE = 0.002
"""Relative standard deviation of a reported loss."""

_PUBLISHED = (0.21, 1.07, 0.07)
_BETA = {
    "cifar10": (0.30, 1.0, 0.05),
    "ncf": (0.12, 1.0, 0.35),
    "bert": (0.25, 1.0, 0.20),
    "deepspeech2": (0.21, 1.0, 0.12),
    "yolov3": (0.15, 1.0, 0.25),
    "imagenet": (0.18, 1.0, 0.15),
}


def reported_losses(app: str, fractions: tuple[float, ...], seed: int) -> FloatArray:
    """Returns the losses a job reports after each of these fractions of its work."""
    noise = np.random.default_rng(seed).normal(0.0, NOISE, len(fractions))
    return _curve(app).loss(EPOCHS * np.array(fractions)) * (1.0 + noise)


def stop_rule(app: str, total_work: float, first_report: float) -> StopRule:
    """Returns the owner's rule; ``first_report`` is the fraction of the work after which the first loss is seen."""
    return StopRule(total_work / EPOCHS, _delta(app, first_report))


@lru_cache(maxsize=4096)
def _delta(app: str, first_report: float) -> float:
    last = float(EPOCHS - PATIENCE_EPOCHS)
    before, after, top = _curve(app).loss(np.array([last, last + 1.0, EPOCHS * first_report])).tolist()
    return float((before - after) / top)


def _curve(app: str) -> LossCurve:
    return LossCurve(_BETA.get(app, _PUBLISHED))
