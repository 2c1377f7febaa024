"""``Outbox`` collects what a coordinator's parts want done, in order, until the coordinator answers with it."""

from __future__ import annotations

from elastane.train.coordinator.actions import Action, Emit, Kill, Record, Send
from elastane.train.coordinator.messages import ToWorker
from elastane.train.coordinator.plan_entries import Entry
from elastane.train.reports.events import Event


class Outbox:
    """Actions that have been decided on, and not been handed out yet."""

    def __init__(self) -> None:
        self._actions: list[Action] = []

    def add(self, action: Action) -> None:
        """After all that was added before."""
        self._actions.append(action)

    def send(self, worker: str, message: ToWorker) -> None:
        """Say something to a worker."""
        self.add(Send(worker, message))

    def record(self, entry: Entry) -> None:
        """Write an entry to the log before anything that follows is done."""
        self.add(Record(entry))

    def kill(self, worker: str, why: str) -> None:
        """Make sure that a worker's process is gone."""
        self.add(Kill(worker, why))

    def tell(self, event: Event) -> None:
        """Report an event of which the time is not known here (``UNTIMED_S``)."""
        self.add(Emit(event))

    def take(self) -> list[Action]:
        """Everything that was added since it was last asked for."""
        actions, self._actions = self._actions, []
        return actions
