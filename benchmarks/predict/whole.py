"""Whole small networks on this machine after ``calibrate``: four models, one run."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.figures import Figures
from benchmarks.predict.networks import BATCHES, NETWORKS
from elastane.predict import Machine, estimate_step
from elastane.predict.calibration.calibrate import calibrate
from elastane.predict.calibration.timing import measure_step
from elastane.predict.capturing import capture
from elastane.predict.costs.contract import CostModel
from elastane.predict.costs.layerwise import LayerwiseNetwork
from elastane.predict.costs.simple import LinearInFlops, Paleo
from elastane.predict.operators import StepCapture
from elastane.predict.profile import Profile

SECONDS = 110.0


@dataclass(frozen=True)
class Case:
    """One network at one batch."""

    name: str
    captured: StepCapture
    measured_s: float


def whole_networks(figures: Figures) -> None:
    """Six networks at three batches each."""
    captured = {key: capture(NETWORKS[key[0]], key[1]) for key in product(NETWORKS, BATCHES)}
    # On a shared machine the same step takes 12 ms in one minute and 20 ms in another: measured before and after.
    before = _measured()
    began = time.monotonic()
    profile = calibrate(SECONDS)
    figures.at_most("calibrate, seconds", time.monotonic() - began, 120.0, "gate", "s")
    figures.note(f"{len(profile.measured)} operators of {len(profile.steps)} networks")
    after = _measured()
    ratios = np.abs(np.log([after[key] / before[key] for key in before]))
    figures.note(
        f"measurements before and after differ by {100 * float(np.median(ratios)):.0f} % in the median"
    )
    cases = [
        Case(f"{key[0]} at {key[1]}", captured[key], math.sqrt(before[key] * after[key])) for key in before
    ]
    _ours(figures, profile, cases)
    _others(figures, profile, cases)


def _measured() -> dict[tuple[str, int], float]:
    return {(name, batch): measure_step(NETWORKS[name], batch) for name, batch in product(NETWORKS, BATCHES)}


def _ours(figures: Figures, profile: Profile, cases: Sequence[Case]) -> None:
    machine = Machine.local(profile)
    errors, covered, widths = [], 0, []
    for case in cases:
        seconds = estimate_step(case.captured, machine).seconds
        errors.append(seconds.middle / case.measured_s - 1.0)
        covered += seconds.covers(case.measured_s)
        widths.append(seconds.high / seconds.middle - 1.0)
        figures.note(
            f"{case.name}: measured {case.measured_s * 1e3:.1f} ms, predicted {100 * errors[-1]:+.0f} %"
        )
    share = 100.0 * covered / len(cases)
    figures.at_most("whole networks, median error", 100 * float(np.median(np.abs(errors))), 12.0, "gate", "%")
    figures.at_most("whole networks, size of the bias", 100 * abs(float(np.mean(errors))), 8.0, "gate", "%")
    figures.within("whole networks, 90 % interval covers (%)", share, 88.5, 8.5 / 88.5, "gate")
    figures.note(f"median half-width of the interval {100 * float(np.median(widths)):.0f} %")


def _others(figures: Figures, profile: Profile, cases: Sequence[Case]) -> None:
    """The same composition of operators to a step for all, so that only the operators' times differ."""
    models: list[CostModel] = [
        LinearInFlops.fit(profile.timings),
        Paleo.fit(profile.timings),
        LayerwiseNetwork.fit(profile.timings, epochs=100),
    ]
    together = profile.composition
    for model in models:
        predicted = [
            together.factor * model.times(case.captured.operators, profile.device).total
            + together.per_call_s * case.captured.calls
            for case in cases
        ]
        errors = np.array(predicted) / np.array([case.measured_s for case in cases]) - 1.0
        median, bias = 100 * float(np.median(np.abs(errors))), 100 * float(np.median(errors))
        figures.note(f"{model.name}: median error {median:.0f} %, median signed error {bias:+.0f} %")
