"""Compares what jobs hold with a decision: the changes that a world has to make, in the order in which they are safe.

Whoever gives something up comes first, so that what others are given is free by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from elastane.cluster import Grant
from elastane.scheduling.decide import Decision


@dataclass(frozen=True, slots=True)
class Refuse:
    """A job that never ran is turned away."""

    job: str
    reason: str


@dataclass(frozen=True, slots=True)
class End:
    """A job that has run is ended by its policy, unfinished."""

    job: str
    reason: str


@dataclass(frozen=True, slots=True)
class Suspend:
    """A job gives up all it holds, and waits."""

    job: str
    reason: str


@dataclass(frozen=True, slots=True)
class Resize:
    """A job goes on with other workers or another batch, on nodes it stands on already."""

    job: str
    grant: Grant


@dataclass(frozen=True, slots=True)
class Move:
    """A job goes on on other nodes."""

    job: str
    grant: Grant


@dataclass(frozen=True, slots=True)
class Renew:
    """A job stays where it is; at most the lease of its grant is another."""

    job: str
    grant: Grant


@dataclass(frozen=True, slots=True)
class Start:
    """A job that held nothing gets its grant."""

    job: str
    grant: Grant


Change = Refuse | End | Suspend | Resize | Move | Renew | Start


def changes(present: Mapping[str, Grant | None], decision: Decision) -> tuple[Change, ...]:
    """What has to happen to the jobs in ``present`` (what each holds), so that the decision becomes reality.

    Jobs that are not in ``present`` stay as they are: their world cannot change them now.
    """
    gone: list[Refuse | End] = [Refuse(job, why) for job, why in decision.refused.items() if job in present]
    gone += [End(job, why) for job, why in decision.ended.items() if job in present]
    turned_away = {change.job for change in gone}
    suspended, rest = [], []
    for job, held in present.items():
        if job in turned_away:
            continue
        change = _change(job, held, decision)
        if isinstance(change, Suspend):
            suspended.append(change)
        elif change is not None:
            rest.append(change)
    rest.sort(key=lambda change: _growth(change, present))  # stable: equals stay in the order of ``present``
    return (*gone, *suspended, *rest)


def _change(job: str, held: Grant | None, decision: Decision) -> Suspend | Resize | Move | Renew | Start | None:
    wanted = decision.lowered.grants.get(job)
    if wanted is None:
        return Suspend(job, decision.lowered.waiting.get(job, "")) if held is not None else None
    if held is None:
        return Start(job, wanted)
    if wanted is held or wanted == held:
        return None
    if wanted.same_place(held):
        return Renew(job, wanted)
    return Resize(job, wanted) if set(wanted.nodes) <= set(held.nodes) else Move(job, wanted)


def _growth(change: Resize | Move | Renew | Start, present: Mapping[str, Grant | None]) -> int:
    held = present[change.job]
    return change.grant.workers - (held.workers if held else 0)
