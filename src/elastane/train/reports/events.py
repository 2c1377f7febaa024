"""Defines the events of a training run: one frozen dataclass per kind.

An event is the same on its way through a socket as in a file: ``to_json`` gives an object with a ``type``,
``from_json`` takes one.  Times ``at_s`` are Unix time in seconds; every ``_s`` is in seconds.
A step is counted when it is complete: ``step`` 7 means that seven updates have been applied.  An ``epoch`` is the
one under way, counted from 0 as a script counts; people are shown it from 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from elastane.codec import decoded, encoded
from elastane.models.goodput import BatchLimits
from elastane.models.throughput import ThroughputParams
from elastane.train.exit_cause import ExitCause, Outcome

VERSION = 1
"""Version of these events; raised when a field changes its meaning, not when one is added."""

ResizeKind = Literal["start", "grow", "shrink", "move", "recover", "rebuild"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at a time."""

    at_s: float

    def to_json(self) -> dict[str, Any]:
        """Returns the event as a JSON object with its ``type``."""
        return {"type": _NAMES[type(self)], **encoded(self)}


@dataclass(frozen=True, slots=True)
class Started(Event):
    """A run begins, or is resumed by new processes."""

    run: str
    script: str
    mode: str
    workers: int
    batch: int
    seed: int
    versions: Mapping[str, str] = field(default_factory=dict)
    version: int = VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped(Event):
    """The steps of a window of about one second, as rank 0 measured them; times are means over its ``steps``.

    ``batch`` is the total of a step: ``per_worker`` samples in each of ``accumulation + 1`` passes of all workers.
    ``progress`` counts steps as if all had been taken at the owner's batch; ``noise`` is in samples.
    A window begins where the one before it ended: windows overlap only where steps were taken again.
    """

    step: int
    epoch: int
    workers: int
    batch: int
    steps: int
    step_s: float
    epochs: int | None = None
    progress: float = 0.0
    fraction: float | None = None
    generation: int = 0
    nodes: int = 1
    per_worker: int = 0
    accumulation: int = 0
    loss: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    compute_s: float = 0.0
    sync_s: float = 0.0
    samples_per_s: float = 0.0
    noise: float | None = None
    gain: float | None = None
    efficiency: float | None = None
    goodput: float | None = None
    lr_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Fitted(Event):
    """The fitted speed model, from which a scheduler predicts the job; ``noise`` in samples, None while unknown."""

    params: ThroughputParams[float]
    noise: float | None
    limits: BatchLimits
    max_profiled: int
    gpu_type: str = ""
    relative_error: float | None = None
    observations: int = 0


@dataclass(frozen=True, slots=True)
class Resized(Event):
    """Training goes on with other members after ``pause_s`` without a step; ``before`` and ``after`` are counts.

    ``redone_steps`` counts steps that were under way and had to be computed again; steps that were complete and
    are lost all the same (after a restore) show in ``step`` going back.
    """

    generation: int
    kind: ResizeKind
    before: int
    after: int
    step: int
    pause_s: float
    breakdown: Mapping[str, float] = field(default_factory=dict)
    shadow: bool = False
    redone_steps: int = 0


@dataclass(frozen=True, slots=True)
class Warming(Event):
    """No step has been completed for ``for_s``: ``worker`` is in one of its first, or (empty) none has begun."""

    worker: str
    for_s: float


@dataclass(frozen=True, slots=True)
class WorkerLost(Event):
    """A worker died or was fenced."""

    worker: str
    cause: str
    step: int


@dataclass(frozen=True, slots=True)
class Limited(Event):
    """A worker ran out of memory in a step with parts of ``before`` samples; from now on ``after`` is the most."""

    worker: str
    before: int
    after: int
    step: int


@dataclass(frozen=True, slots=True)
class WorkerJoined(Event):
    """A worker takes part from this step on."""

    worker: str
    step: int


@dataclass(frozen=True, slots=True)
class WorkerLeft(Event):
    """A worker left as it was asked to."""

    worker: str
    cause: str
    step: int


@dataclass(frozen=True, slots=True)
class Straggler(Event):
    """A worker computes far slower than the others; both rates are samples per second of computation."""

    worker: str
    rate: float
    median: float


@dataclass(frozen=True, slots=True)
class Rebatched(Event):
    """The total batch changed, with or without the workers."""

    step: int
    before: int
    after: int
    reason: str


@dataclass(frozen=True, slots=True)
class Saved(Event):
    """A checkpoint is complete; ``blocking_s`` is what training waited for it, ``write_s`` what writing took."""

    step: int
    bytes: int
    blocking_s: float
    write_s: float


@dataclass(frozen=True, slots=True)
class Evaluated(Event):
    """The script measured its model."""

    epoch: int
    step: int
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Warned(Event):
    """Something the owner should know, in one sentence."""

    text: str


@dataclass(frozen=True, slots=True)
class Diverged(Event):
    """Replicas that should be equal are not: these workers differ from the others."""

    step: int
    workers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ended(Event):
    """The run is over, for these processes at least; ``cause`` is empty when nothing went wrong."""

    outcome: Outcome
    cause: str
    step: int
    wall_s: float
    exit: ExitCause | None = None
    """Why, to decide by; a run that was not supervised, or by an earlier version, has only words."""


_TYPES: dict[str, type[Event]] = {
    "started": Started,
    "stepped": Stepped,
    "fitted": Fitted,
    "resized": Resized,
    "warming": Warming,
    "worker_lost": WorkerLost,
    "worker_joined": WorkerJoined,
    "worker_left": WorkerLeft,
    "straggler": Straggler,
    "rebatched": Rebatched,
    "saved": Saved,
    "evaluated": Evaluated,
    "warned": Warned,
    "diverged": Diverged,
    "limited": Limited,
    "ended": Ended,
}
_NAMES = {kind: name for name, kind in _TYPES.items()}
_LARGEST = 2**53
_LONGEST_S = 1e12
"""Upper limit of seconds and of all other floating-point fields; NaN is outside."""
_MOST_NAMES = 1000
_ANYTHING = frozenset(
    {"loss", "noise", "gain", "efficiency", "goodput", "lr_factor", "relative_error", "rate", "median"}
)
"""Fields without limits: a diverging training may report any value in them, NaN included."""


def from_json(document: object) -> Event | None:
    """Decodes an event from a JSON object; None for a type that only another version knows.

    Raises:
        ValueError: this is not an event, or a field of it is missing or of the wrong kind.
    """
    name = document.get("type") if isinstance(document, Mapping) else None
    if not isinstance(name, str):
        raise ValueError(f"not an event: {document!r:.80}")
    kind = _TYPES.get(name)
    event = None if kind is None else decoded(kind, document)
    if event is not None and not math.isfinite(event.at_s):
        raise ValueError(f"not a time: {event.at_s}")
    return event


def check_measured(event: Event) -> None:
    """Refuses values that cannot have been measured, for readers that do not trust the writer.

    A loss or a metric may be anything, NaN included.

    Raises:
        ValueError: a field is out of range.
    """
    for name in event.__dataclass_fields__:
        value = getattr(event, name)
        if isinstance(value, int):
            least = -_LARGEST if name == "seed" else 0
            right = least <= value <= _LARGEST
        elif isinstance(value, float):
            right = name in _ANYTHING or 0.0 <= value <= _LONGEST_S
        else:
            right = not isinstance(value, Mapping) or len(value) <= _MOST_NAMES
        if not right:
            raise ValueError(f"{name} cannot be {value!r:.80}")
