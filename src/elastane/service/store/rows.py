"""Rows of jobs and decisions as immutable values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from elastane.cluster import Grant
from elastane.jobs.states import TERMINAL, State

Ending = Literal["", "suspend", "cancel"]
Verdict = Literal["", "downgrade", "reject"]

# Bounded, because SQLite's integers are.
_ID = re.compile(r"j([1-9][0-9]{0,17})", re.ASCII)


def number_of(job: str) -> int | None:
    """The number in a job's exact id; None for anything else."""
    match = _ID.fullmatch(job)
    return int(match[1]) if match else None


def id_of(number: int) -> str:
    """The id of the job with this number."""
    return f"j{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One job.  What it is never changes; how it fares is stored again with ``Transaction.save_job``."""

    number: int
    name: str
    owner: str
    tenant: str
    spec: Mapping[str, Any]
    directory: str
    submitted_s: float
    code_from: Mapping[str, Any] | None = None
    """How its directory comes to nodes (``engines/nodes/package_places``); None where nothing was said."""

    state: State
    kind: str
    kind_reason: str = ""
    reason: str = ""
    """Why it waits, or why it ended."""
    held: bool = False
    """A person put it on hold."""
    pinned_workers: int | None = None
    pinned_node: str | None = None

    attempt: int = 0
    """Which execution this is; 0 before the first."""
    grant: Grant | None = None
    ending: Ending = ""
    """What is being asked of its attempt."""
    seen: int = 0
    """The last report of this attempt that is stored."""
    verdict: Verdict = ""
    """What its policy has decided about it for good: a lower class, or its end."""
    code: int | None = None
    exit: Mapping[str, Any] | None = None
    """How its latest attempt that is over ended (``ExitCause`` as JSON); ``reason`` is only for people."""
    restarts: int = 0
    """Attempts in a row that were lost by no doing of its own."""
    changes: int = 0
    """How often its grant has changed since its first start, which is what policies charge it for."""
    failures: int = 0

    first_start_s: float | None = None
    last_change_s: float = 0.0
    ended_s: float | None = None

    as_of_s: float = 0.0
    """When the two below were exact; they grow with the grant since."""
    service_gpu_s: float = 0.0
    held_s: float = 0.0

    training: Mapping[str, Any] = field(default_factory=dict)
    """What the training reported last."""
    profile: Mapping[str, Any] = field(default_factory=dict)
    """What was learned of its speed."""

    @property
    def id(self) -> str:
        """The job's id, as people write it."""
        return id_of(self.number)

    @property
    def terminal(self) -> bool:
        """Whether it has ended for good."""
        return self.state in TERMINAL


@dataclass(frozen=True, slots=True)
class Decision:
    """What a policy saw and what it wanted: enough to decide again."""

    seq: int
    at_s: float
    policy: str
    took_ms: float
    problem: str
    view: Mapping[str, Any]
    plan: Mapping[str, Any]
