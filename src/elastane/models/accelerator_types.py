"""Predicts a job's speed on an accelerator type it was hardly ever seen on, from another type (as Sia, SOSP'23, §3.2).

=========  =======================================================================================
symbol     meaning
=========  =======================================================================================
T_A(n)     seconds of a step with n GPUs of type A, which the job was seen with
ratio      T_B(1) ÷ T_A(1), from the job itself or, where it has never been on B, from others
T_B(n)     ratio × T_A(n), until the job was seen with several GPUs of type B; its own from then on
=========  =======================================================================================

T is homogeneous in α and β, so multiplying these by the ratio multiplies every T.
"""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

from elastane.models.goodput import GoodputModel
from elastane.models.throughput import ThroughputParams, gradient_time_s, scaled

_ANY = ""
"""Parameters under this name hold on every type: they were fitted without distinguishing types."""

_MODELS: WeakKeyDictionary[GoodputModel, dict[tuple[str, float], GoodputModel]] = WeakKeyDictionary()
_PASSES: WeakKeyDictionary[GoodputModel, dict[str, float]] = WeakKeyDictionary()
"""Models are immutable, so what was derived from them is kept as long as they live."""


def tells_types_apart(model: GoodputModel) -> bool:
    """Tells whether a model has parameters per accelerator type."""
    return _ANY not in model.params


def best_known(model: GoodputModel) -> str:
    """Returns the type on which the job was seen with most GPUs; the first of equals."""
    return max(model.params, key=lambda kind: _seen(model, kind))


def passes_s(model: GoodputModel) -> dict[str, float]:
    """Returns T(1) in seconds on every known type, at the best batch for one GPU of the best known type."""
    found = _PASSES.get(model)
    if found is None:
        batch = model.best_batch(1, 1, best_known(model))
        per_gpu = batch.per_gpu if batch else model.limits.per_gpu_max
        found = {kind: gradient_time_s(theta, float(per_gpu)) for kind, theta in model.params.items()}
        _PASSES[model] = found
    return found


def on_type(model: GoodputModel, gpu_type: str, ratio: float = 1.0) -> GoodputModel:
    """Returns the model for one type; ``ratio`` is T(1) there ÷ T(1) on the best known type, if never seen there."""
    if not tells_types_apart(model) or list(model.params) == [gpu_type]:
        return model
    key = gpu_type, 0.0 if gpu_type in model.params else ratio
    known = _MODELS.setdefault(model, {})
    if key not in known:
        known[key] = _on_type(model, gpu_type, ratio)
    return known[key]


def _on_type(model: GoodputModel, gpu_type: str, ratio: float) -> GoodputModel:
    own, best = model.params.get(gpu_type), best_known(model)
    seen = _seen(model, best)
    if own is None:
        theta = scaled(model.params[best], ratio)
    elif _seen(model, gpu_type) > 1 or seen == 1:
        theta, seen = own, _seen(model, gpu_type)
    else:
        theta = _synchronising(own, model.params[best], model, gpu_type, best)
    return replace(model, params={gpu_type: theta}, max_profiled=seen, profiled={gpu_type: seen})


def _synchronising(
    own: ThroughputParams[float], best: ThroughputParams[float], model: GoodputModel, here: str, there: str
) -> ThroughputParams[float]:
    """Combines the passes measured on one GPU of this type with scaled synchronisation times of the best known."""
    passes = passes_s(model)
    return scaled(best, passes[here] / passes[there])._replace(alpha_c=own.alpha_c, beta_c=own.beta_c)


def _seen(model: GoodputModel, kind: str) -> int:
    return max(model.seen_on(kind), 1)
