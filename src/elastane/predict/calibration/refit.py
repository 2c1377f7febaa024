"""Computes and saves the factors of a probe: into the profile of this machine, or into a file of its own for a card."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import torch

from elastane.predict.calibration.calibrate import Progress
from elastane.predict.calibration.probing import probe
from elastane.predict.devices import Device
from elastane.predict.probes import CardProbes, factors_of
from elastane.predict.profile import load_profile
from elastane.predict.steps import Machine


def probe_local(path: Path, layers: int, progress: Progress) -> dict[str, float]:
    """Probes the calibrated machine and saves the factors in its profile; those of an earlier probe are replaced."""
    profile = replace(load_profile(path), factors={}, probed_at_s=0.0)
    timings = probe(profile.device, layers, progress)
    factors = {kind.value: round(each, 4) for kind, each in factors_of(profile.model, timings).items()}
    replace(profile, factors=factors, probed_at_s=time.time()).save(path)
    return factors


def probe_card(device: Device, path: Path, layers: int, progress: Progress) -> dict[str, float]:
    """Probes a device of a catalog and saves the factors in a file of their own."""
    timings = probe(device, layers, progress)
    model = Machine.from_catalog(device).model
    factors = {kind.value: round(each, 4) for kind, each in factors_of(model, timings).items()}
    CardProbes(device.name, time.time(), str(torch.__version__), layers, len(timings), factors).save(path)
    return factors
