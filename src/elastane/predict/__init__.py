"""How long a training run will take and what it will cost, before it starts and while it runs.

    from elastane import predict

    captured = predict.capture(make_job, batch=32)              # needs PyTorch, computes nothing
    machine = predict.Machine.from_catalog(predict.find("a100-80g"))
    step = predict.estimate_step(captured, machine, "bf16")
    run = predict.estimate_run(step, predict.RunPlan(samples=1_281_167, epochs=90))
    run.total_s.low, run.total_s.middle, run.total_s.high, run.basis

``capture`` and ``calibrate`` import PyTorch when they are called; importing this package does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastane.predict.devices import Device, catalog, find
from elastane.predict.eta.api import ETA
from elastane.predict.interval import Interval, Unknown
from elastane.predict.job import JobFactory, TrainingJob, require_torch
from elastane.predict.prices import load_prices
from elastane.predict.profile import Profile, load_profile
from elastane.predict.run import RunEstimate, RunPlan, estimate_run
from elastane.predict.step import Machine, StepEstimate, estimate_step

if TYPE_CHECKING:
    from elastane.predict.operators import StepCapture

__all__ = [
    "ETA",
    "Device",
    "Interval",
    "Machine",
    "Profile",
    "RunEstimate",
    "RunPlan",
    "StepEstimate",
    "TrainingJob",
    "Unknown",
    "calibrate",
    "capture",
    "catalog",
    "estimate_run",
    "estimate_step",
    "find",
    "load_prices",
    "load_profile",
]


def capture(job: TrainingJob | JobFactory, batch: int) -> StepCapture:
    """The operators of one training step, see ``elastane.predict.capturing``."""
    require_torch()
    from elastane.predict.capturing.tracing import capture as traced

    return traced(job, batch)


def calibrate(seconds: float = 100.0) -> Profile:
    """Measure this machine, see ``elastane.predict.calibration``."""
    require_torch()
    from elastane.predict.calibration.calibrate import calibrate as measured

    return measured(seconds)
