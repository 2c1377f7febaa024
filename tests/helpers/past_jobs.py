"""Past jobs of catalog applications, and learners that measure them."""

from __future__ import annotations

from collections.abc import Iterable

from elastane.models.catalog import catalog_app
from elastane.models.history import Experience, NoisePoint, Signature, Timing
from elastane.models.online import Learner, refit
from elastane.models.throughput import times_s

Place = tuple[int, int, int]
"""Nodes, workers, samples per GPU."""

PLACES: tuple[Place, ...] = (
    (1, 1, 128),
    (1, 2, 128),
    (1, 4, 128),
    (1, 4, 512),
    (2, 8, 128),
    (2, 8, 512),
    (4, 16, 256),
)


def timing(app: str, place: Place, slower: float = 1.0, gpu_type: str = "t4") -> Timing:
    gradient_s, step_s = times_s(catalog_app(app).params[gpu_type], *place)
    return Timing(*place, gradient_s * slower, step_s * slower)


def past_job(
    number: int = 0,
    app: str = "cifar10",
    *,
    places: Iterable[Place] = PLACES,
    types: Iterable[str] = ("t4",),
    slower: float = 1.0,
    total_work: float | None = 1e6,
    tenant: str = "default",
    shared: bool = False,
    script: str = "",
    config: str = "",
    batch: int = 0,
) -> Experience:
    places = tuple(places)
    return Experience(
        id=f"{app}-{number}",
        signature=Signature(app=app, tenant=tenant, script=script, config=config, batch=batch),
        timings={kind: tuple(timing(app, place, slower, kind) for place in places) for kind in types},
        noise=(NoisePoint(0.0, 500.0), NoisePoint(1.0, 4000.0)),
        total_work=total_work,
        restart_s=30.0,
        finished_at_s=float(number),
        shared=shared,
    )


def measure(learner: Learner, app: str, *places: Place, slower: float = 1.0, gpu_type: str = "t4") -> Learner:
    for place in places:
        row = timing(app, place, slower, gpu_type)
        learner.observe(gpu_type, *place, row.gradient_s, row.step_s)
        refit([learner])
    return learner
