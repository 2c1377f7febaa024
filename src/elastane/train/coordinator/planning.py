"""Makes plans: who trains next, in which order, and how newcomers get the state.  Pure functions of what is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from elastane.train.coordinator.membership_plan import Kind, Plan
from elastane.train.coordinator.worker_table import Phase, Worker


def start_plan(generation: int, ready: Sequence[Worker]) -> Plan:
    """The first plan of a job, or of one that has lost all its members."""
    names = tuple(worker.name for worker in ready)
    return Plan(generation, Kind.START, names, source=names[0], nodes=_nodes(ready))


def recovery_plan(generation: int, parked: Iterable[Worker], current: Plan | None) -> Plan:
    """The urgent plan of the survivors of a broken generation; who has applied the most steps hands the state on."""
    rank = {name: rank for rank, name in enumerate(current.members if current else ())}
    members = sorted(parked, key=lambda w: rank.get(w.name, len(rank)))
    latest = max(members, key=lambda w: w.applied)
    behind = any(w.applied != latest.applied for w in members)
    return Plan(
        generation=generation,
        kind=Kind.RECOVER,
        members=tuple(w.name for w in members),
        source=latest.name if behind else None,
        nodes=_nodes(members),
    )


@dataclass(frozen=True, slots=True)
class Change:
    """A change of members that is wanted: who stays, comes and goes, and who is not needed at all."""

    members: Sequence[Worker]
    """All of the present plan."""
    keep: Sequence[Worker]
    joiners: Sequence[Worker]
    leavers: Sequence[Worker]
    surplus: Sequence[Worker]
    """Started, and no longer wanted."""
    expected: Sequence[Worker]
    """Started, and not ready yet."""

    @property
    def after(self) -> Sequence[Worker]:
        """The members after the change, in rank order."""
        return [*self.keep, *self.joiners]

    def leaving_first(self) -> Change:
        """The same without newcomers, if somebody leaves and others stay: who leaves does not wait for a loop."""
        return replace(self, joiners=()) if self.leavers and self.keep else self

    def waits(self, target: int, now_s: float, patience_s: float) -> bool:
        """Whether those who come are waited for, so that one change does for all; who only leaves need not wait."""
        patient = bool(self.joiners) and now_s - self.joiners[0].ready_s < patience_s
        missing = bool(self.expected) and target > len(self.keep)
        return missing and (patient or not self.joiners)


def wanted_change(
    current: Plan, workers: dict[str, Worker], target: int, dropped: set[str], *, plain_copy: bool
) -> Change:
    """What has to change so that ``target`` workers train, none of them in ``dropped``."""
    alive = [worker for worker in workers.values() if worker.alive]
    members = [workers[name] for name in current.members]
    keep = [w for w in members if w.alive and w.name not in dropped][:target]
    waiting = [w for w in alive if w.phase is Phase.READY]
    joiners = waiting[: target - len(keep)]
    warming = [w for w in alive if w.phase is Phase.WARMING]
    room = max(0, target - len(keep) - len(joiners))
    surplus = [*waiting[len(joiners) :], *warming[room:]]
    if not keep and not can_follow(joiners, plain_copy=plain_copy):
        # Somebody must hand the state over; he leaves afterwards.
        keep = [w for w in members if w.alive][:1]
    leavers = [w for w in members if w.alive and w not in keep]
    return Change(members, keep, joiners, leavers, surplus, warming[:room])


def change_plan(
    generation: int, change: Change, *, shadow: bool, plain_copy: bool, at_loop: bool = False
) -> Plan:
    """The plan for a change; with ``shadow`` newcomers may follow the training, unless a plain copy is due."""
    after, keep, joiners, leavers = change.after, change.keep, change.joiners, change.leavers
    kind = Kind.MOVE if joiners and leavers else Kind.GROW if joiners else Kind.SHRINK
    able = can_follow(after, plain_copy=plain_copy)
    follows = bool(joiners) and able and (shadow or not keep) and not plain_copy
    donors = [w for w in change.members if w.alive]
    return Plan(
        generation=generation,
        kind=kind,
        members=tuple(w.name for w in after),
        joiners=tuple(w.name for w in joiners),
        leavers=tuple(w.name for w in leavers),
        donors={w.name: donors[i % len(donors)].name for i, w in enumerate(joiners)} if follows else {},
        streams={w.name: w.stream for w in joiners},
        shadow=follows,
        source=keep[0].name if joiners and not follows and keep else None,
        nodes=_nodes(after),
        at_loop=at_loop and bool(joiners),
    )


def can_follow(workers: Iterable[Worker], *, plain_copy: bool) -> bool:
    """Whether all of them could take part in a shadow join."""
    return not plain_copy and all(w.signature.get("shadow", False) for w in workers)


def _nodes(workers: Iterable[Worker]) -> int:
    return max(1, len({w.node for w in workers}))
