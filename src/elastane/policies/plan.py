"""A policy returns a plan: a complete desired state, at the level of detail its paper has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from elastane.cluster import Grant


class Fill(Enum):
    """How an order is filled when a job does not fit."""

    STRICT = "strict"  # no job overtakes
    SKIP = "skip"  # later jobs that fit may start


class Spread(Enum):
    """Which nodes a job should stand on."""

    EMPTIEST = "emptiest"  # the nodes with most room first: few nodes, never waits
    BEST_FIT = "best-fit"  # the tightest single node that holds it, else whole nodes first: never waits
    CONSOLIDATED = "consolidated"  # the fewest nodes it could ever stand on, or wait
    FRAGMENTS = "fragments"  # leftovers first, keeping empty nodes for jobs that need them
    BALANCED = "balanced"  # Optimus: fewest nodes that hold workers and servers evenly, or wait


@dataclass(frozen=True, slots=True)
class Order:
    """Jobs by precedence; each gets the workers it requested, running ones not listed or not reached stop."""

    jobs: tuple[str, ...]
    fill: Fill = Fill.SKIP
    spread: Spread = Spread.BEST_FIT
    spread_of: Mapping[str, Spread] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Want:
    """The workers (and parameter servers) that one job should have, and limits on their places."""

    workers: int
    servers: int = 0
    gpu_type: str | None = None
    spread: Spread = Spread.BEST_FIT
    max_nodes: int | None = None


@dataclass(frozen=True, slots=True)
class Wants:
    """Counts and types; jobs not listed get nothing.  Order matters where placement cannot satisfy all."""

    want: Mapping[str, Want]


@dataclass(frozen=True, slots=True)
class Received:
    """What jobs got, by job and type, since their shares were last computed (Gavel's rounds).

    ``seconds`` of time, ``short_s`` by which they fell short of their shares before.  ``types`` in the order in which
    they are filled.  With ``fill``, GPUs that no share asks for go to jobs that could use them.
    """

    seconds: Mapping[str, Mapping[str, float]]
    short_s: Mapping[str, Mapping[str, float]]
    types: tuple[str, ...]
    fill: bool = True


@dataclass(frozen=True, slots=True)
class Shares:
    """Fractions of time per accelerator type.

    A policy that keeps account of what jobs ``received`` on each type says so; without, only the time since their
    submission in which they held anything is known.
    """

    fraction: Mapping[str, Mapping[str, float]]
    received: Received | None = None


@dataclass(frozen=True, slots=True)
class Exact:
    """Grants as they shall be; jobs not listed get nothing."""

    grants: Mapping[str, Grant]


Intent = Order | Wants | Shares | Exact


class Verdict(Enum):
    """The answer to a job's admission: whether it may run, and on which terms."""

    ADMIT = "admit"
    REJECT = "reject"
    DEFER = "defer"
    DOWNGRADE = "downgrade"


@dataclass(frozen=True, slots=True)
class Admission:
    """A verdict with its reason, and the completion time now promised, if any."""

    verdict: Verdict
    reason: str = ""
    promise_s: float | None = None


@dataclass(frozen=True)
class Plan:
    """One decision.  ``wake_s`` asks to be called at those times; ``memory`` comes back in the next view.

    ``memory`` must be made of JSON values (None, bool, int, float, str, tuples or lists, string-keyed dicts).
    ``explain`` says, for jobs that wait, what binds them.  ``holds`` counts GPUs kept idle for a job on purpose.
    """

    intent: Intent
    explain: Mapping[str, str] = field(default_factory=dict)
    admissions: Mapping[str, Admission] = field(default_factory=dict)
    prices: Mapping[str, float] = field(default_factory=dict)
    payments: Mapping[str, float] = field(default_factory=dict)
    holds: Mapping[str, int] = field(default_factory=dict)
    wake_s: tuple[float, ...] = ()
    memory: Any = None
