"""What a calibration found out about a machine, as a JSON file: raw timings, from which models are fitted when asked.

Timings are kept instead of fitted models, so that a better model needs no new measurement and nothing has to be
unpickled.  A profile belongs to one machine, one number of threads and one version of PyTorch.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from elastane.codec import decoded, encoded
from elastane.errors import ElastaneError
from elastane.predict.costs.contract import CostModel, Timing
from elastane.predict.devices import Device
from elastane.predict.operators import Kind, Operator, Phase

VERSION = 2
ENOUGH_STEPS = 10
"""Networks from which the spread of whole steps is learnt."""
NOISE_SD = 0.04
"""Of a measurement on a machine that nobody disturbs much; no interval is narrower."""
QUARTILE_Z = 0.6745
"""Standard deviations that half of all errors stay within."""


@dataclass(frozen=True)
class Measured:
    """One operator's timing, flat: fields as in ``Operator``."""

    name: str
    kind: Kind
    phase: Phase
    flops: float
    bytes: float
    dims: tuple[int, ...]
    seconds: float

    def timing(self, device: Device) -> Timing:
        """As cost models take it."""
        operator = Operator(self.name, self.kind, self.phase, self.flops, self.bytes, self.dims)
        return Timing(operator, device, self.seconds)


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


@dataclass(frozen=True)
class Profile:
    """A calibrated machine.  ``made_at_s`` is Unix time.

    All times are at the tick ``tick_s`` (see ``calibration.ticks``), which varied by ``drift_sd`` (of its logarithm)
    while they were taken.  ``factors`` per kind come from a later probe.
    """

    device: Device
    made_at_s: float
    torch: str
    threads: int
    host: str
    measured: tuple[Measured, ...]
    steps: tuple[WholeStep, ...]
    tick_s: float = 0.0
    drift_sd: float = 0.0
    factors: Mapping[str, float] = field(default_factory=dict)
    probed_at_s: float = 0.0
    version: int = VERSION

    @cached_property
    def timings(self) -> tuple[Timing, ...]:
        """All measurements, as cost models take them."""
        return tuple(each.timing(self.device) for each in self.measured)

    @cached_property
    def model(self) -> CostModel:
        """Our cost model, fitted to these measurements, times the factors of the last probe."""
        from elastane.predict.costs.ratio import RatioModel  # SciPy, which most predictions do without

        fitted = RatioModel.fit(self.timings)
        return fitted.rescaled({Kind(name): factor for name, factor in self.factors.items()})

    @cached_property
    def composition(self) -> Composition:
        """Factor and cost per call, by least squares of relative errors, none negative."""
        return composition(self.steps)

    def save(self, path: Path) -> None:
        """Write the file whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(encoded(self)) + "\n", encoding="utf-8")
        part.replace(path)


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

    Normalised conformal prediction (Papadopoulos et al. 2008, Lei et al. 2018): errors are divided by doubt + usual
    doubt before they are compared.  Their median is taken: of a few dozen networks the worst few, often badly measured
    ones, would decide a mean or any quantile near the border.
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
        log_sd=max(float(np.median(off)) / QUARTILE_Z, NOISE_SD),
        usual_sd=usual,
    )


def load_profile(path: Path) -> Profile:
    """Read a profile.

    Raises:
        ElastaneError: there is none, or it is of another version.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ElastaneError(
            f"this machine has not been calibrated ({path} is missing); run: elastane predict calibrate"
        ) from None
    except (OSError, ValueError) as error:
        raise ElastaneError(f"the profile {path} cannot be read: {error}") from error
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise ElastaneError(f"the profile {path} is of another version; run: elastane predict calibrate")
    try:
        return decoded(Profile, document)
    except ValueError as error:
        raise ElastaneError(
            f"the profile {path} is damaged: {error}; run: elastane predict calibrate"
        ) from error


def default_path() -> Path:
    """Where this user's profile of this machine lies."""
    return _folder() / "local.json"


def history_path() -> Path:
    """Where it is kept what runs really took."""
    return _folder() / "history.jsonl"


def probes_path(device: str) -> Path:
    """Where the probes of a card lie."""
    safe = "".join(each if each.isalnum() or each in "-_." else "_" for each in device)
    return _folder() / "probes" / f"{safe}.json"


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "elastane" / "predict"
