"""Measures a real step of the user's job on this machine, operator by operator."""

from __future__ import annotations

from elastane.predict.calibration.timing import Bench, clock
from elastane.predict.capturing.isolation import real_copy, untouched_randomness
from elastane.predict.job import JobFactory
from elastane.predict.operators import Operator

PASSES = 5


def measured_step(make: JobFactory, batch: int, passes: int = PASSES) -> list[tuple[Operator, float]]:
    """Measures a few real steps of a copy of the model; returns operators with seconds that add up to the step.

    What lies between operators (Python, the dispatcher) is spread over them in proportion, as predictions do.
    """
    from dataclasses import replace

    with untouched_randomness():
        job = make()
        bench = Bench(replace(job, model=real_copy(job.model)), batch, clock(), modules=True)
        bench.measure(passes)
        step = bench.result()
    factor = step.whole_s / max(sum(step.seconds), 1e-12)
    return [
        (operator, seconds * factor) for operator, seconds in zip(step.operators, step.seconds, strict=True)
    ]
