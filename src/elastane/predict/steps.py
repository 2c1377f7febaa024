"""Predicts the time of one training step on a device: operators, the overhead between them, and an interval."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from elastane.predict.composition import Composition
from elastane.predict.costs.contract import Basis, CostModel, Times
from elastane.predict.costs.shipped import Shipped, shipped_fits
from elastane.predict.costs.simple import Roofline
from elastane.predict.devices import Device
from elastane.predict.interval import Interval
from elastane.predict.operators import Memory, Operator, Phase, StepCapture, together
from elastane.predict.outcomes import Outcome, Predicted, kappa
from elastane.predict.probes import CardProbes
from elastane.predict.profile import Profile

HOST_CALL_S = 5e-6
"""Seconds that Python and the dispatcher take per call: a step on an accelerator cannot be faster than its host."""
_UNKNOWN_WIDENING = 1.0


@dataclass(frozen=True)
class Machine:
    """A device with the cost model and composition to use for it, and κ, the factor that past runs suggest."""

    device: Device
    model: CostModel
    composition: Composition
    about: str
    made_at_s: float = 0.0
    kappa: float = 1.0

    @classmethod
    def local(cls, profile: Profile) -> Machine:
        """Returns the predictor of this machine, as it was calibrated."""
        about = f"calibrated {_age(profile.made_at_s)} ago, {len(profile.measured)} operators"
        if profile.drift_sd >= 0.05:
            about += f", when this machine's speed varied by ±{profile.drift_sd:.0%}"
        if profile.factors:
            about += f", probed {_age(profile.probed_at_s)} ago"
        return cls(profile.device, profile.model, profile.composition, about, profile.made_at_s)

    @classmethod
    def from_catalog(cls, device: Device, probes: CardProbes | None = None) -> Machine:
        """Returns the predictor of a device of the catalog: the shipped fits for accelerators, and probes if any."""
        if not device.accelerator:
            model: CostModel = Roofline(factors=probes.by_kind if probes else {})
            about = f"roofline only, specification of {device.as_of}"
        else:
            model = Shipped(shipped_fits(), probes.by_kind if probes else {})
            about = model.about(device)
        if probes is not None:
            about += f", probed {_age(probes.made_at_s)} ago with {probes.layers} layers"
        return cls(device, model, Composition(1.0, 0.0, 0.1), about, probes.made_at_s if probes else 0.0)

    def after(self, outcomes: Sequence[Outcome]) -> Machine:
        """Returns the predictor with κ from runs since the device was calibrated or probed."""
        factor, runs = kappa(outcomes, self.device.name, self.made_at_s)
        if not runs:
            return self
        return replace(self, kappa=factor, about=f"{self.about}, times {factor:.2f} by {runs} past runs")


def _age(since_s: float) -> str:
    hours = max(time.time() - since_s, 0.0) / 3600.0
    return f"{hours:.0f} h" if hours < 72 else f"{hours / 24:.0f} days"


@dataclass(frozen=True, eq=False)
class StepEstimate:
    """Predicted seconds of a step, with everything needed to explain them."""

    machine: Machine
    capture: StepCapture
    precision: str
    operators: tuple[Operator, ...]
    times: Times
    seconds: Interval
    scale: float
    """Ratio of the whole step to the plain sum of its operators."""

    @property
    def basis(self) -> Basis:
        """The basis of the prediction."""
        return self.machine.model.basis

    @property
    def ms(self) -> Interval:
        """The step in milliseconds."""
        return self.seconds.scaled(1e3)

    @property
    def predicted(self) -> Predicted:
        """The prediction as the ETA of a run takes it: used at first, and compared with measurements later."""
        return Predicted(self.machine.device.name, self.seconds, self.machine.kappa)

    @property
    def memory(self) -> Memory:
        """The memory of one worker, in bytes."""
        return self.capture.memory

    @property
    def unmodelled(self) -> dict[str, int]:
        """The operators without a rule, with their number of calls."""
        return dict(self.capture.unknown)

    def phase_s(self, phase: Phase) -> float:
        """Returns the seconds of one phase."""
        return self._total(lambda each: each.phase is phase)

    def by_operator(self) -> dict[str, float]:
        """Returns seconds per name of operator, largest first; they add up to the step."""
        return self._shares(lambda each: each.name)

    def by_module(self) -> dict[str, float]:
        """Returns seconds per module path, largest first; they add up to the step."""
        return self._shares(lambda each: each.module or f"({each.phase.value})")

    def _total(self, wanted: Callable[[Operator], bool]) -> float:
        mask = np.array([wanted(each) for each in self.operators])
        return float(self.times.seconds[mask].sum()) * self.scale

    def _shares(self, key: Callable[[Operator], str]) -> dict[str, float]:
        found: dict[str, float] = defaultdict(float)
        for each, seconds in zip(self.operators, self.times.seconds, strict=True):
            found[key(each)] += float(seconds) * self.scale
        return dict(sorted(found.items(), key=lambda item: -item[1]))


def estimate_step(capture: StepCapture, machine: Machine, precision: str = "fp32") -> StepEstimate:
    """Predicts how long one worker takes for the captured step on a machine."""
    device = machine.device
    operators = together(capture.operators) if device.accelerator else capture.operators
    times = machine.model.times(operators, device, precision)
    middle = machine.composition.whole_s(times.total, capture.calls)
    if device.accelerator:
        middle = max(middle, HOST_CALL_S * len(operators))
    middle *= machine.kappa
    log_sd = _log_sd(times, machine, capture)
    return StepEstimate(
        machine,
        capture,
        precision,
        operators,
        times,
        Interval.around(middle, log_sd),
        middle / times.total,
    )


def _log_sd(times: Times, machine: Machine, capture: StepCapture) -> float:
    """Returns the log standard deviation of a step, wider for operators without a rule.

    It comes from networks left out of the calibration, else from operators, device and composition together.
    """
    together, own = machine.composition, times.own_sd
    if together.usual_sd > 0.0:
        known = together.spread(own)
    else:
        known = math.sqrt(own**2 + times.shared_sd**2 + together.log_sd**2)
    return known + _UNKNOWN_WIDENING * capture.unknown_share
