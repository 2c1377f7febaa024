"""Draws what owners ask of the live system for the jobs of any workload: classes, kinds, tenants, priorities, …

| key | meaning |
|---|---|
| guaranteed=F, opportunistic=F | fraction of the jobs with that class; the others keep theirs |
| adaptive=F, resizable=F, rigid=F, command=F | fraction of the jobs with that kind; the others keep theirs |
| tenants=N | tenants t1 … tN; the share of tk is proportional to 1/k |
| priorities=N | priorities 0 … N−1, equally often |
| weights=W | weights from 1/W to W, even in their logarithm |
| deadlines=F | fraction with a deadline: 1.5 to 5 times the job's duration after its submission, where that is known, \
else 1 to 24 hours |

Each line of the table has a random stream of its own, and a job's draws depend on its place in the workload: what one
key says changes nothing in what the others draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from elastane.errors import ElastaneError
from elastane.jobs.kinds import JobClass, Kind
from elastane.sim.workloads.fits import Floats
from elastane.sim.workloads.owner_columns import MOST_PRIORITY, MOST_WEIGHT
from elastane.sim.workloads.streams import streams
from elastane.sim.workloads.trace import Trace, TraceJob

M = TypeVar("M")

CLASSES = (JobClass.GUARANTEED, JobClass.OPPORTUNISTIC)
KINDS = (Kind.ADAPTIVE, Kind.RESIZABLE, Kind.RIGID, Kind.COMMAND)
COUNTS = ("tenants", "priorities", "weights", "deadlines")
KEYS = (*(member.value for member in (*CLASSES, *KINDS)), *COUNTS)
"""Every key that a workload's text may have for this."""
_MOST_TENANTS = 10_000
_STREAM = 0x0E1A
"""Told apart from the streams that workloads themselves draw from."""
_SLACK = (1.5, 5.0)
_HOURS = (1.0, 24.0)


@dataclass(frozen=True)
class OwnerMix:
    """What owners ask for, as fractions and counts; the default asks for nothing and changes nothing."""

    classes: Mapping[JobClass, float] = field(default_factory=dict)
    kinds: Mapping[Kind, float] = field(default_factory=dict)
    tenants: int | None = None
    priorities: int | None = None
    weights: float | None = None
    deadlines: float | None = None

    def __post_init__(self) -> None:
        _check_fractions({member.value: share for member, share in self.classes.items()})
        _check_fractions({member.value: share for member, share in self.kinds.items()})
        _check_fractions({"deadlines": self.deadlines or 0.0})
        if self.tenants is not None and not 1 <= self.tenants <= _MOST_TENANTS:
            raise ElastaneError(f"tenants={self.tenants}: give 1 to {_MOST_TENANTS:,}")
        if self.priorities is not None and not 1 <= self.priorities <= MOST_PRIORITY:
            raise ElastaneError(f"priorities={self.priorities}: give 1 to {MOST_PRIORITY:,}")
        if self.weights is not None and not 1.0 <= self.weights <= MOST_WEIGHT:
            raise ElastaneError(f"weights={self.weights:g}: give 1 to {MOST_WEIGHT:,.0f}")

    def asked(self) -> list[tuple[str, float]]:
        """What is asked for, as key and value of a workload's text."""
        shares = [
            (member.value, share) for part in (self.classes, self.kinds) for member, share in part.items()
        ]
        counts = [(key, getattr(self, key)) for key in COUNTS]
        return [*shares, *((key, value) for key, value in counts if value is not None)]


def _check_fractions(shares: Mapping[str, float]) -> None:
    for key, share in shares.items():
        if not 0.0 <= share <= 1.0:
            raise ElastaneError(f"{key}={share:g}: is a fraction of the jobs, between 0 and 1")
    if sum(shares.values()) > 1.0 + 1e-9:
        raise ElastaneError(f"{' + '.join(shares)} is {sum(shares.values()):g}; more than all jobs there are")


def mixed(trace: Trace, mix: OwnerMix, seed: int) -> Trace:
    """The trace with what owners ask for drawn by seed; the trace itself where nothing is asked for."""
    if not mix.asked():
        return trace
    draws = [rng.random(len(trace.jobs)) for rng in streams(seed, 7, _STREAM)]
    jobs = tuple(
        _asked(job, mix, tenant, draw)
        for job, tenant, *draw in zip(trace.jobs, _tenants(mix, draws[0]), *draws[1:], strict=True)
    )
    written = ",".join(f"{key}={value:g}" for key, value in mix.asked())
    note = f"what owners ask for was drawn with seed {seed}: {written}"
    return replace(trace, jobs=jobs, source=f"{trace.source},{written}", notes=(*trace.notes, note))


def _asked(job: TraceJob, mix: OwnerMix, tenant: str | None, draw: list[float]) -> TraceJob:
    klass, kind, priority, weight, timed, slack = map(float, draw)
    chosen = _picked(mix.classes, klass)
    return replace(
        job,
        klass=chosen.value if chosen else job.klass,
        kind=_picked(mix.kinds, kind) or job.kind,
        tenant=tenant or job.tenant,
        priority=job.priority if mix.priorities is None else int(priority * mix.priorities),
        weight=job.weight if mix.weights is None else mix.weights ** (2.0 * weight - 1.0),
        deadline_s=_deadline_s(job, slack) if timed < (mix.deadlines or 0.0) else job.deadline_s,
    )


def _picked(shares: Mapping[M, float], draw: float) -> M | None:
    """The member into whose part of [0, 1) the draw falls, if into any."""
    edge = 0.0
    for member, share in shares.items():
        edge += share
        if draw < edge:
            return member
    return None


def _tenants(mix: OwnerMix, draws: Floats) -> list[str | None]:
    if mix.tenants is None:
        return [None] * len(draws)
    edges = np.cumsum(1.0 / np.arange(1, mix.tenants + 1))
    places = np.minimum(np.searchsorted(edges / edges[-1], draws, side="right"), mix.tenants - 1)
    return [f"t{place + 1}" for place in places.tolist()]


def _deadline_s(job: TraceJob, draw: float) -> float:
    low, high = _SLACK if job.duration_s is not None else _HOURS
    unit_s = job.duration_s if job.duration_s is not None else 3600.0
    return job.submit_s + (low + draw * (high - low)) * unit_s
