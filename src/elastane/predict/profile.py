"""What a calibration found out about a machine, as a JSON file: raw timings, from which models are fitted when asked.

Timings are kept instead of fitted models, so that a better model needs no new measurement and nothing has to be
unpickled.  A profile belongs to one machine, one number of threads and one version of PyTorch.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from elastane.codec import decoded, encoded
from elastane.errors import ElastaneError
from elastane.predict.costs.contract import CostModel, Timing
from elastane.predict.costs.ratio import RatioModel
from elastane.predict.devices import Device
from elastane.predict.operators import Kind, Operator, Phase

VERSION = 1


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
    """A whole network's step: seconds in its operators, calls, and seconds in all."""

    operators_s: float
    calls: int
    whole_s: float


@dataclass(frozen=True)
class Composition:
    """How operators add up to a step: ``factor``·Σ + ``per_call_s``·calls, and the spread of what is left."""

    factor: float = 1.07
    per_call_s: float = 0.0
    log_sd: float = 0.15


@dataclass(frozen=True)
class Profile:
    """A calibrated machine.  ``made_at_s`` is Unix time."""

    device: Device
    made_at_s: float
    torch: str
    threads: int
    host: str
    measured: tuple[Measured, ...]
    steps: tuple[WholeStep, ...]
    version: int = VERSION

    @cached_property
    def timings(self) -> tuple[Timing, ...]:
        """All measurements, as cost models take them."""
        return tuple(each.timing(self.device) for each in self.measured)

    @cached_property
    def model(self) -> CostModel:
        """Our cost model, fitted to these measurements."""
        return RatioModel.fit(self.timings)

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
    """How operators of these steps added up; the usual figures if there are fewer than three."""
    if len(steps) < 3:
        return Composition()
    whole = np.array([each.whole_s for each in steps])
    parts = np.array([[each.operators_s, each.calls] for each in steps]) / whole[:, None]
    (factor, per_call), _ = nnls(parts, np.ones(len(steps)))
    left = np.log(np.maximum(parts @ np.array([factor, per_call]), 1e-9))
    spread = max(float(np.quantile(np.abs(left), 0.68)), 0.02)
    return Composition(float(factor), float(per_call), spread)


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
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "elastane" / "predict" / "local.json"
