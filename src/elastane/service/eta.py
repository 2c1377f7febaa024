"""Estimates when a job will be done, as a range, and what more or fewer workers would do for it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from elastane.cluster import Node
from elastane.service.control.job_measurements import JobMeasurements
from elastane.service.messages import CurvePoint, Eta

if TYPE_CHECKING:
    from elastane.predict.interval import Interval

_LEAST_WINDOWS = 3
_SILENCE_S = 3.0
"""How long nothing may be heard of a job after its end was due, before that is taken for time lost."""


log = logging.getLogger("elastane")
NONSENSE = Eta(basis="unknown: what it reported makes no sense")
"""Of a job from whose reports nothing can be computed; that is its own matter, and no other's."""


def end_of(learned: JobMeasurements, now_s: float, running: bool) -> Eta | None:
    """From the pace of the latest windows; None (or a reason) when nothing can be said, whatever was reported."""
    try:
        return _end_of(learned, now_s, running)
    except Exception:
        log.exception("the end of a job cannot be estimated")
        return NONSENSE


def _end_of(learned: JobMeasurements, now_s: float, running: bool) -> Eta | None:
    fraction = learned.fraction
    if fraction is None:
        return Eta(basis="unknown: the job does not say how much there is to do") if running else None
    if not running:
        return Eta(basis="unknown while it waits")
    windows = learned.fractions
    if len(windows) < _LEAST_WINDOWS:
        return Eta(basis="unknown: too little was seen since the last change")
    left, seen_s = _left(windows), windows[-1][0]
    if left is None:
        return Eta(basis="unknown: it makes no progress")
    if now_s - seen_s > _SILENCE_S + left.high:  # it should have ended: what was left is still to be done
        seen_s = now_s
    return Eta(
        low_s=max(now_s, seen_s + left.low),
        mid_s=max(now_s, seen_s + left.middle),
        high_s=max(now_s, seen_s + left.high),
        basis=f"pace of the last {len(windows)} s of training",
    )


def _left(windows: Sequence[tuple[float, float]]) -> Interval | None:
    """Seconds left as of the last window; time in which lost steps are taken again belongs to the next new one."""
    # They take their time to import, and a start need not wait for it.
    from elastane.predict.eta import Doing, EtaEngine, Goal, Span
    from elastane.predict.interval import Unknown

    (began_s, done), *later = windows
    engine = EtaEngine(Goal(1.0))
    engine.resume(done)
    for at_s, part in later:
        if part > engine.done:
            engine.observe(Span(Doing.TRAIN, began_s, at_s, part - engine.done))
            began_s = at_s
    engine.go_to(windows[-1][1])
    left = engine.remaining()
    return None if isinstance(left, Unknown) else left


def curve_of(
    learned: JobMeasurements, nodes: Mapping[str, Node], most: int, chosen: int, accelerator: str = ""
) -> list[CurvePoint]:
    """Goodput by workers relative to one, on as few nodes as possible, all of one accelerator type.

    That is the one it trains on, else the one on which it was seen most, else the first.
    """
    kinds = tuple(dict.fromkeys(node.gpu_type for node in nodes.values())) or ("cpu",)
    accelerator = accelerator or max(kinds, key=lambda kind: len(learned.measured_on(kind)))
    sizes = sorted((node.gpus for node in nodes.values() if node.gpu_type == accelerator), reverse=True)
    model = learned.speed(*kinds)
    if model is None or not sizes:
        return []
    rates = {}
    for workers in range(1, max(1, min(most, sum(sizes), model.limits.max_workers)) + 1):
        rate, _ = model.best_of(nodes_for(workers, sizes), workers, accelerator)
        rates[workers] = float(rate)
    if not rates.get(1):
        return []
    measured = learned.measured_on(accelerator)
    return [
        CurvePoint(workers=n, speedup=rate / rates[1], measured=n in measured, chosen=n == chosen)
        for n, rate in rates.items()
        if rate > 0.0  # no batch of the job can be divided among so many
    ]


def nodes_for(workers: int, sizes: Sequence[int]) -> int:
    """The fewest nodes that hold so many workers, of nodes with so many slots, the largest first."""
    for count in range(1, len(sizes) + 1):
        if sum(sizes[:count]) >= workers:
            return count
    return len(sizes)
