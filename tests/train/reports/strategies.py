"""Every event there can be."""

from __future__ import annotations

from dataclasses import fields

from hypothesis import strategies as st

from elastane.models.goodput import BatchLimits
from elastane.models.throughput import ThroughputParams
from elastane.train.reports import events
from elastane.train.reports.events import Event, Fitted

KINDS = [
    kind
    for kind in vars(events).values()
    if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
]
LIMITS = st.builds(BatchLimits, st.just(8), st.integers(8, 99), st.just(1), st.integers(1, 9))
NUMBERS = st.floats()
TIMES = st.floats(-1e12, 1e12)
PARAMS = st.builds(ThroughputParams, *[NUMBERS] * 7)


def every_field(kind: type[Event]) -> st.SearchStrategy[Event]:
    """Also those with a default, which hypothesis would leave alone."""
    return st.builds(kind, **{field.name: ... for field in fields(kind)} | {"at_s": TIMES})


ANY_EVENT = st.one_of(
    st.builds(
        Fitted, TIMES, PARAMS, st.none() | NUMBERS, LIMITS, st.integers(0, 64), relative_error=..., gpu_type=...
    ),
    *(every_field(kind) for kind in KINDS if kind is not Fitted),
)
