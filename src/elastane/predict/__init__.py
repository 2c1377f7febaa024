"""Predicts how long a training run will take and what it will cost, before it starts and while it runs.

    from elastane import predict

    step = predict.step(make_job, device="a100-80g", precision="bf16", batch=32)
    step.ms.p50, step.ms.interval(0.9), step.by_operator(), step.by_module(), step.unmodelled, step.memory, step.basis
    run = predict.run(step, samples=1_281_167, epochs=90, validation_samples=50_000, workers=8)
    run.total_s.low, run.total_s.middle, run.total_s.high, run.basis
    run.cost(predict.load_prices(path))                          # None if no price is known

``step`` needs PyTorch and computes nothing.  In parts: ``capture``, ``Machine``, ``estimate_step``, ``RunPlan``,
``estimate_run``.  ``capture`` and ``calibrate`` import PyTorch when they are called; importing this package does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastane.predict.collectives import Sharing
from elastane.predict.devices import Device, catalog, find
from elastane.predict.interval import Interval, Unknown
from elastane.predict.job import JobFactory, TrainingJob, require_torch
from elastane.predict.loader_time import measure_loader
from elastane.predict.outcomes import load_outcomes
from elastane.predict.prices import load_prices
from elastane.predict.probes import load_probes
from elastane.predict.profile import Profile, default_path, history_path, load_profile, probes_path
from elastane.predict.runs import RunEstimate, RunPlan, estimate_run
from elastane.predict.steps import Machine, StepEstimate, estimate_step

if TYPE_CHECKING:
    from elastane.predict.eta.api import ETA
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
    "measure_loader",
    "run",
    "step",
]


def __getattr__(name: str) -> Any:
    """Imports ``ETA`` on first access: it needs SciPy's optimizers, which take longer to load than to predict."""
    if name != "ETA":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from elastane.predict.eta.api import ETA

    return ETA


def capture(job: TrainingJob | JobFactory, batch: int) -> StepCapture:
    """Captures the operators of one training step, see ``elastane.predict.capturing``."""
    require_torch()
    from elastane.predict.capturing.tracing import capture as traced

    return traced(job, batch)


def calibrate(seconds: float = 100.0) -> Profile:
    """Measures this machine, see ``elastane.predict.calibration``."""
    require_torch()
    from elastane.predict.calibration.calibrate import calibrate as measured

    return measured(seconds)


def step(
    job: TrainingJob | JobFactory, device: str | Device = "local", precision: str = "fp32", batch: int = 32
) -> StepEstimate:
    """Predicts one step of a job on a device of the catalog, on one of your own, or on this machine (``local``)."""
    if device == "local":
        machine = Machine.local(load_profile(default_path()))
    else:
        row = find(device) if isinstance(device, str) else device
        machine = Machine.from_catalog(row, load_probes(probes_path(row.name)))
    return estimate_step(capture(job, batch), machine.after(load_outcomes(history_path())), precision)


def run(
    step: StepEstimate,
    samples: int,
    epochs: float,
    validation_samples: int = 0,
    loader_s: float | None = None,
    workers: int = 1,
) -> RunEstimate:
    """Predicts a whole run of such steps; ``estimate_run`` has more options."""
    plan = RunPlan(samples, epochs, validation_samples, loader_s=loader_s)
    return estimate_run(step, plan, Sharing(workers))
