"""``Communicators`` decides over which transport the members of a plan train, and when they change over.

Whoever waits for a plan gets one over gloo: a communicator takes seconds to build, and if one member cannot have it,
none may use it, which an urgent plan leaves no time to agree upon.  Then the same members are planned again
(``rebuild``) while they train.  A communicator that cannot be had, or breaks without a death, is given up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from elastane.train.coordinator.membership_plan import Kind, Plan
from elastane.train.coordinator.worker_table import Worker
from elastane.train.transport_choice import Choice, TransportKind, TransportWish, choose_transport

MOST_BREAKS = 3
"""Communicators in a row that broke although nobody had died, after which none is built any more."""
_LONGEST_NOTE = 300


class Communicators:
    """What is known of the communicators of one job."""

    def __init__(self, wish: TransportWish) -> None:
        self._wish = wish
        self._breaks = 0
        self._told: set[str] = set()
        self._notes: list[str] = []

    def planned(self, plan: Plan, workers: Mapping[str, Worker]) -> Plan:
        """The plan with its transport."""
        choice = self._choice([workers[name] for name in plan.members], urgent=plan.urgent)
        if self._wish is TransportWish.NCCL:
            self._tell(choice.note)
        return replace(plan, transport=choice.kind)

    def rebuilding(self, generation: int, current: Plan, workers: Mapping[str, Worker]) -> Plan | None:
        """The plan by which the present members change over to a better transport, if there is one."""
        members = [workers[name] for name in current.members]
        if not all(worker.alive for worker in members):
            return None
        if self._choice(members, urgent=False).kind is current.transport:
            return None
        return Plan(generation, Kind.REBUILD, current.members, nodes=current.nodes)

    def refused(self, worker: Worker, why: str) -> None:
        """A worker cannot have one; nobody who trains with it gets one."""
        worker.device = replace(worker.device, lacking=f"{worker.name}: {why}")

    def late(self, plan: Plan, workers: Mapping[str, Worker]) -> None:
        """A plan could not be prepared in time; if it had a communicator, that may be why."""
        if plan.transport is TransportKind.NCCL_LIKE:
            for worker in (workers[name] for name in plan.members):
                if worker.built < plan.generation:
                    self.refused(worker, "its communicator was not built in time")

    def broke(self, plan: Plan | None) -> None:
        """A generation broke, and nobody is known to have died."""
        if plan is not None and plan.transport is TransportKind.NCCL_LIKE:
            self._breaks += 1
            if self._breaks == MOST_BREAKS:
                self._tell(f"{MOST_BREAKS} communicators in a row broke for no reason that is known")

    def explained(self) -> None:
        """Somebody has died: that is why it broke."""
        if not self.given_up:
            self._breaks = 0

    @property
    def given_up(self) -> bool:
        """Whether none is built any more."""
        return self._breaks >= MOST_BREAKS

    def notes(self) -> Iterable[str]:
        """What a person should be told, once."""
        notes, self._notes = self._notes, []
        return notes

    def _choice(self, members: Sequence[Worker], *, urgent: bool) -> Choice:
        communicator = self._wish.communicator and not self.given_up
        return choose_transport([worker.device for worker in members], urgent, communicator)

    def _tell(self, note: str) -> None:
        if note and note not in self._told:
            self._told.add(note)
            self._notes.append(note[:_LONGEST_NOTE])
