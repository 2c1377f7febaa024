"""The built-in model catalog: six applications on five accelerators, fitted to published measurements.

Holds, per application and accelerator, the seven throughput parameters with their error, batch limits, the gradient
noise over training, the work to do and restart times.  ``data/profiles.json`` says how each figure was obtained.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from elastane.errors import ElastaneError
from elastane.models.goodput import BatchLimits
from elastane.models.speed import FloatArray
from elastane.models.throughput import ThroughputParams
from elastane.suggest import did_you_mean


@dataclass(frozen=True, eq=False)
class CatalogApp:
    """One application.  ``noise`` is φ (samples) at ``fractions`` of the work; interpolate its logarithm."""

    name: str
    initial: int
    maximum: int
    epochs: int
    total_work: float
    params: dict[str, ThroughputParams[float]]
    per_gpu: dict[str, tuple[int, int]]
    relative_error: dict[str, float]
    fractions: FloatArray
    log_noise: FloatArray
    restart_s: float

    def noise_at(self, fraction: float) -> float:
        """Returns φ, in samples, after that part of the work."""
        return float(np.exp(np.interp(fraction, self.fractions, self.log_noise)))

    def limits(self, gpu_types: tuple[str, ...]) -> BatchLimits:
        """Batch limits that hold on every one of these accelerators."""
        ranges = [self._range(kind) for kind in gpu_types]
        return BatchLimits(self.initial, self.maximum, max(r[0] for r in ranges), min(r[1] for r in ranges))

    def _range(self, gpu_type: str) -> tuple[int, int]:
        if gpu_type not in self.per_gpu:
            hint = did_you_mean(gpu_type, self.per_gpu)
            known = ", ".join(sorted(self.per_gpu))
            raise ElastaneError(f"the catalog has no accelerator {gpu_type!r}{hint} (known: {known})")
        return self.per_gpu[gpu_type]


@cache
def catalog() -> dict[str, CatalogApp]:
    """All applications by name."""
    text = files("elastane.models").joinpath("data/profiles.json").read_text(encoding="utf-8")
    return {name: _app(name, entry) for name, entry in json.loads(text)["apps"].items()}


def catalog_app(name: str) -> CatalogApp:
    """One application, or an error that names the nearest."""
    apps = catalog()
    if name not in apps:
        hint = did_you_mean(name, apps)
        raise ElastaneError(f"the catalog has no application {name!r}{hint} (known: {', '.join(apps)})")
    return apps[name]


def _app(name: str, entry: dict) -> CatalogApp:  # type: ignore[type-arg]
    devices = entry["throughput"]
    return CatalogApp(
        name=name,
        initial=entry["init_batch_size"],
        maximum=entry["max_batch_size"],
        epochs=entry["target_epochs"],
        total_work=entry["progress_target"] * entry["init_batch_size"],
        params={kind: ThroughputParams(**d["params"]) for kind, d in devices.items()},
        per_gpu={kind: (d["min_local_bsz"], d["max_local_bsz"]) for kind, d in devices.items()},
        relative_error={kind: d["mape_pct"] / 100.0 for kind, d in devices.items()},
        fractions=np.array(entry["noise"]["progress_fraction"]),
        log_noise=np.log(np.array(entry["noise"]["noise_scale"])),
        restart_s=float(entry["restart_seconds"]["sia_sim"]),
    )
