"""Keeps the calibration of a machine as a JSON file: raw timings, from which models are fitted on demand.

Timings are kept instead of fitted models, so that a better model needs no new measurement and nothing has to be
unpickled.  A profile belongs to one machine, one number of threads and one version of PyTorch.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from elastane.codec import decoded, encoded
from elastane.errors import ElastaneError
from elastane.kit.atomic_files import write_atomically
from elastane.predict.composition import Composition, WholeStep, composition
from elastane.predict.costs.contract import CostModel, Timing
from elastane.predict.costs.monotone import Monotone
from elastane.predict.devices import Device
from elastane.predict.operators import Kind, Operator, Phase
from elastane.textfiles import read_json

VERSION = 2
_MOST = 1e18
"""Largest valid figure of an operator."""
_LEAST_DIMS = {Kind.MATMUL: 4, Kind.CONVOLUTION: 8, Kind.CONVOLUTION_BACKWARD: 8}
"""The least number of dims that ``costs.features`` needs, by kind."""


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

    def __post_init__(self) -> None:
        if not all(0.0 <= each <= _MOST for each in (self.flops, self.bytes, self.seconds, *self.dims)):
            raise ValueError(f"{self.name:.40}: flops, bytes, dims and seconds must be from 0 to {_MOST:g}")
        if len(self.dims) < _LEAST_DIMS.get(self.kind, 0):
            raise ValueError(f"{self.name:.40}: a {self.kind.value} has {_LEAST_DIMS[self.kind]} dims or more")

    def timing(self, device: Device) -> Timing:
        """Converts it to a timing, as cost models take it."""
        operator = Operator(self.name, self.kind, self.phase, self.flops, self.bytes, self.dims)
        return Timing(operator, device, self.seconds)


@dataclass(frozen=True)
class Profile:
    """A calibrated machine.  ``made_at_s`` is Unix time.

    All times are at the tick ``tick_s`` (see ``calibration.reference_work``), which varied by ``drift_sd`` (of its
    logarithm) while they were taken.  ``factors`` per kind come from a later probe.
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

    def __post_init__(self) -> None:
        if not (
            math.isfinite(self.made_at_s) and 0.0 <= self.tick_s < math.inf and 0.0 <= self.drift_sd <= 10.0
        ):
            raise ValueError("made_at_s, tick_s and drift_sd must be finite, the latter two from 0 up")
        shapes = {(each.kind, len(each.dims)) for each in self.measured}
        if len(shapes) > len({kind for kind, _ in shapes}):
            raise ValueError("measured has operators of one kind with different numbers of dims")
        if not set(self.factors) <= {kind.value for kind in Kind}:
            raise ValueError(f"factors has a kind of operator that is not known: {sorted(self.factors)!s:.80}")
        if not all(0.0 < factor < math.inf for factor in self.factors.values()):
            raise ValueError("factors must be above 0")

    @cached_property
    def timings(self) -> tuple[Timing, ...]:
        """All measurements, as cost models take them."""
        return tuple(each.timing(self.device) for each in self.measured if each.seconds > 0.0)

    @cached_property
    def model(self) -> CostModel:
        """The cost model fitted to these measurements, with the factors of the last probe."""
        from elastane.predict.costs.ratio import RatioModel  # SciPy, which most predictions do without

        fitted = RatioModel.fit(self.timings)
        return Monotone(fitted.rescaled({Kind(name): factor for name, factor in self.factors.items()}))

    @cached_property
    def composition(self) -> Composition:
        """The composition fitted to the whole steps: factor, cost per call and per step, none negative."""
        return composition(self.steps)

    def save(self, path: Path) -> None:
        """Writes the file atomically: whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(encoded(self)) + "\n")


def load_profile(path: Path) -> Profile:
    """Reads the profile of a calibrated machine.

    Raises:
        ElastaneError: there is none, or it is of another version.
    """
    if not path.exists():
        raise ElastaneError(
            f"this machine has not been calibrated ({path} is missing); run: elastane predict calibrate"
        )
    try:
        document = read_json(path)
    except ElastaneError as error:
        raise ElastaneError(f"the profile cannot be read: {error}") from None
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise ElastaneError(f"the profile {path} is of another version; run: elastane predict calibrate")
    try:
        return decoded(Profile, document)
    except ValueError as error:
        raise ElastaneError(
            f"the profile {path} is damaged: {error}; run: elastane predict calibrate"
        ) from error


def default_path() -> Path:
    """Returns the path of this user's profile of this machine."""
    return _folder() / "local.json"


def history_path() -> Path:
    """Returns the path of the history of predicted and measured steps."""
    return _folder() / "history.jsonl"


def probes_path(device: str) -> Path:
    """Returns the path of the probes of a card."""
    safe = "".join(each if each.isalnum() or each in "-_." else "_" for each in device)
    return _folder() / "probes" / f"{safe}.json"


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "elastane" / "predict"
