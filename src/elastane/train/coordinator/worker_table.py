"""The worker table holds what the coordinator knows of each worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from elastane.train.coordinator.cpu_activity import Effort
from elastane.train.coordinator.worker_activity import Activity
from elastane.train.transport_choice import UNTOLD, MemberDevice


class Phase(StrEnum):
    """Where a worker is on its way through a job."""

    WARMING = "warming"
    """Process started; imports, builds its model."""
    READY = "ready"
    """Waits to be planned in."""
    JOINING = "joining"
    """Named in a plan that is being prepared; training goes on without it."""
    MEMBER = "member"
    LEAVING = "leaving"
    """No longer a member; finishes up."""
    GONE = "gone"


@dataclass(slots=True)
class Beat:
    """A worker's own account of where it is; ``since_s`` is when it got there, on our clock."""

    step: int = 0
    doing: Activity = Activity.WARMING
    since_s: float = 0.0


@dataclass(slots=True)
class Worker:
    """What the coordinator knows of one worker process."""

    name: str
    phase: Phase = Phase.WARMING
    signature: Mapping[str, Any] = field(default_factory=dict)
    stream: str = ""
    device: MemberDevice = UNTOLD
    node: str = ""
    host: str = ""
    """Where other workers reach it."""
    started_s: float | None = None
    """When its process was there; None before that."""
    seen_s: float = 0.0
    ready_s: float = 0.0
    beat: Beat = field(default_factory=Beat)
    effort: Effort = field(default_factory=Effort)
    built: int = 0
    caught_up: int = 0
    entered: int = 0
    joined: int = 0
    """The first generation it has trained in."""
    parked: int = 0
    """Highest generation whose end this worker has acknowledged; it waits for a later one."""
    applied: int = -1
    """Last optimizer step it has applied, while parked."""
    samples: int = 0
    """The largest part of a step that it computes; 0 while it has not said, or its end has nothing to do with it."""
    done: bool = False
    words: str = ""
    """What it said itself, or what was seen of it, before it ended badly."""

    @property
    def alive(self) -> bool:
        """Whether its process may still do something."""
        return self.phase is not Phase.GONE

    @property
    def useful(self) -> bool:
        """Whether it trains or will."""
        return self.phase in (Phase.WARMING, Phase.READY, Phase.JOINING, Phase.MEMBER) and not self.done


def virtual_ranks(signature: Mapping[str, Any]) -> int:
    """Returns the number of virtual ranks in a worker's settings, 0 if it has none.

    Raises:
        ValueError: the worker tells of itself what makes no sense.
    """
    settings, parameters = signature.get("settings", {}), signature.get("parameters", [])
    if not isinstance(settings, Mapping) or not isinstance(parameters, list | tuple):
        raise ValueError("its settings or parameters are none")
    virtual = settings.get("virtual") or 0
    if not isinstance(virtual, int) or virtual < 0:
        raise ValueError("its virtual ranks are no number")
    return virtual


def first_difference(mine: Mapping[str, Any], reference: Mapping[str, Any]) -> str | None:
    """Why a worker cannot train with the others, in one clause; None if it can."""
    for key in ("elastane", "torch", "python"):
        if mine.get(key) != reference.get(key):
            return f"has {key} {mine.get(key)} where the others have {reference.get(key)}"
    for key in sorted({*mine.get("settings", {}), *reference.get("settings", {})}):
        here, there = mine.get("settings", {}).get(key), reference.get("settings", {}).get(key)
        if here != there:
            return f"was set up with {key} {here!r} where the others have {there!r}"
    ours, theirs = mine.get("parameters", []), reference.get("parameters", [])
    for one, other in zip(ours, theirs, strict=False):
        if one != other:
            return f"has parameter {_text(one)} where the others have {_text(other)}"
    if len(ours) != len(theirs):
        return f"has {len(ours)} parameters where the others have {len(theirs)}"
    return None


def _text(parameter: Any) -> str:
    name, shape, dtype = parameter
    return f"{name} {tuple(shape)} {dtype}"
