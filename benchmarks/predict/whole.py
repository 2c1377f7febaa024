"""Whole small networks on this machine after ``calibrate``: four models, one run.

Networks are measured before and after the calibration, each in a process of its own, in random order, with a tick
beside every step: what is compared is the time at the machine's usual tick, so that a slow minute is not taken for an
error of the prediction, nor a lucky one for accuracy.  The same without ticks is printed beside it.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.figures import Figures
from benchmarks.predict.networks import CASES, FAMILIES, NETWORKS
from benchmarks.predict.sizes import sizes_matter
from benchmarks.predict.uniform import uniform_profile
from elastane.models.speed import FloatArray
from elastane.predict import Machine, estimate_step
from elastane.predict.calibration.calibrate import calibrate
from elastane.predict.calibration.timing import measure_step
from elastane.predict.capturing import capture
from elastane.predict.costs.contract import CostModel
from elastane.predict.costs.layerwise import LayerwiseNetwork
from elastane.predict.costs.simple import LinearInFlops, Paleo
from elastane.predict.operators import StepCapture
from elastane.predict.profile import Profile
from elastane.predict.steps import StepEstimate

SECONDS = 100.0
CONVOLUTIONAL = ("CNN", "residual", "separable")
CLEARLY = 0.75
"""Our error over another's, to be called clearly better."""

Seen = list[tuple[float, float]]
"""Seconds of a step and of its tick, several times."""


@dataclass(frozen=True)
class Case:
    """One network at one batch."""

    name: str
    family: str
    captured: StepCapture
    seen: Seen
    tick_s: float

    @property
    def usual_s(self) -> float:
        """Seconds at the usual tick: between the measurements."""
        return float(np.exp(np.mean(np.log([step / tick for step, tick in self.seen]))) * self.tick_s)

    @property
    def plain_s(self) -> float:
        """Seconds as they were."""
        return float(np.exp(np.mean(np.log([step for step, _ in self.seen]))))


def whole_networks(figures: Figures) -> None:
    """All networks at their batches."""
    captured = {key: capture(NETWORKS[key[0]], key[1]) for key in CASES}
    seen: dict[tuple[str, int], Seen] = {key: [] for key in CASES}
    _measure(seen, 0)
    began = time.monotonic()
    profile = calibrate(SECONDS)
    figures.at_most("calibrate, seconds", time.monotonic() - began, 120.0, "gate", "s")
    figures.note(f"{len(profile.measured)} operators of {len(profile.steps)} networks")
    figures.note(
        f"ticks varied by ±{100 * profile.drift_sd:.0f} % (1 standard deviation) during the calibration"
    )
    _measure(seen, 1)
    _repeatability(figures, seen)
    families = {name: family for family, networks in FAMILIES.items() for name in networks}
    cases = [
        Case(f"{name} at {batch}", families[name], captured[name, batch], seen[name, batch], profile.tick_s)
        for name, batch in CASES
    ]
    ours = _ours(figures, profile, cases)
    _others(figures, profile, cases, ours)
    sizes_matter(figures, profile)
    _uniform(figures, profile, [case for case in cases if case.family in CONVOLUTIONAL])


def _measure(seen: dict[tuple[str, int], Seen], seed: int) -> None:
    for name, batch in random.Random(seed).sample(sorted(seen), len(seen)):
        seen[name, batch].append(measure_step(NETWORKS[name], batch))


def _repeatability(figures: Figures, seen: dict[tuple[str, int], Seen]) -> None:
    plain = [abs(np.log(each[0][0] / each[1][0])) for each in seen.values()]
    ticked = [abs(np.log(each[0][0] / each[0][1] / each[1][0] * each[1][1])) for each in seen.values()]
    figures.note(
        f"before and after differ by {100 * float(np.median(plain)):.0f} % in the median, "
        f"{100 * float(np.median(ticked)):.0f} % in ticks"
    )


def _ours(figures: Figures, profile: Profile, cases: Sequence[Case]) -> float:
    machine = Machine.local(profile)
    steps = [estimate_step(case.captured, machine) for case in cases]
    errors = _errors([each.seconds.middle for each in steps], cases)
    for case, error in zip(cases, errors, strict=True):
        figures.note(f"{case.name}: measured {case.usual_s * 1e3:.1f} ms, predicted {100 * error:+.0f} %")
    median = 100 * float(np.median(np.abs(errors)))
    figures.at_most("whole networks, median error", median, 12.0, "gate", "%")
    figures.at_most("whole networks, size of the bias", 100 * abs(float(np.mean(errors))), 8.0, "gate", "%")
    _interval(figures, steps, cases)
    _unticked(figures, steps, cases)
    return median


def _interval(figures: Figures, steps: Sequence[StepEstimate], cases: Sequence[Case]) -> None:
    """How many it covers, by family as well, and that it is not bought by width."""
    covers = np.array([s.seconds.covers(case.usual_s) for s, case in zip(steps, cases, strict=True)])
    figures.within(
        "whole networks, 90 % interval covers (%)", 100 * float(covers.mean()), 88.5, 8.5 / 88.5, "gate"
    )
    for family in FAMILIES:
        here = np.array([case.family == family for case in cases])
        figures.note(f"{family}: interval covers {covers[here].sum()} of {here.sum()}")
    off = [abs(math.log(s.seconds.middle / case.usual_s)) for s, case in zip(steps, cases, strict=True)]
    widths = [math.log(each.seconds.high / each.seconds.middle) for each in steps]
    constant = float(np.quantile(off, 0.9))
    figures.at_most(
        "whole networks, our interval over the best of constant width",
        float(np.mean(widths)) / constant,
        2.0,
        "gate",
    )
    figures.note(f"median half-width of the interval {100 * (math.exp(float(np.median(widths))) - 1.0):.0f} %")


def _unticked(figures: Figures, steps: Sequence[StepEstimate], cases: Sequence[Case]) -> None:
    """The same without ticks, for those who do not believe in them."""
    plain = np.array([s.seconds.middle / case.plain_s - 1.0 for s, case in zip(steps, cases, strict=True)])
    covered = 100 * float(
        np.mean([s.seconds.covers(case.plain_s) for s, case in zip(steps, cases, strict=True)])
    )
    figures.note(
        f"without ticks: median error {100 * float(np.median(np.abs(plain))):.1f} %, bias "
        f"{100 * float(np.mean(plain)):+.1f} %, interval covers {covered:.0f} %"
    )


def _others(figures: Figures, profile: Profile, cases: Sequence[Case], ours: float) -> None:
    """The same composition of operators to a step for all, so that only the operators' times differ."""
    models: list[CostModel] = [
        LinearInFlops.fit(profile.timings),
        Paleo.fit(profile.timings),
        LayerwiseNetwork.fit(profile.timings),
    ]
    together = profile.composition
    for model in models:
        predicted = [
            together.whole_s(model.times(case.captured.operators, profile.device).total, case.captured.calls)
            for case in cases
        ]
        errors = _errors(predicted, cases)
        median, bias = 100 * float(np.median(np.abs(errors))), 100 * float(np.median(errors))
        figures.note(f"{model.name}: median error {median:.0f} %, median signed error {bias:+.0f} %")
        if not isinstance(model, LinearInFlops):
            figures.at_most(
                f"whole networks, our error over that of {model.name}", ours / median, CLEARLY, "gate"
            )


def _uniform(figures: Figures, profile: Profile, cases: Sequence[Case]) -> None:
    """Convolutional networks, had convolutions been measured at uniformly random sizes: the bias has to show."""
    biases = []
    for each in (profile, uniform_profile(profile)):
        machine = Machine.local(each)
        errors = _errors([estimate_step(case.captured, machine).seconds.middle for case in cases], cases)
        biases.append(100 * float(np.mean(errors)))
    plain, uniform = biases
    figures.note(
        f"convolutional networks: mean signed error {plain:+.1f} %, with uniformly drawn sizes {uniform:+.1f} %"
    )
    figures.at_most("8 % over the bias that uniformly drawn sizes give", 8.0 / abs(uniform), 1.0, "gate")


def _errors(predicted: Sequence[float], cases: Sequence[Case]) -> FloatArray:
    return np.array([p / case.usual_s - 1.0 for p, case in zip(predicted, cases, strict=True)], np.float64)
