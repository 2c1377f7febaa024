"""The contract says what server and supervisor need of whoever decides over a job's workers.

``Coordinator`` decides over workers that talk to it, ``PlainCoordinator`` over processes that know nothing of
us.  What only talking workers need (ready, built, entered ...) is between them, the server and ``Coordinator``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from elastane.train.coordinator.actions import Action, Finish
from elastane.train.coordinator.membership_plan import Plan
from elastane.train.coordinator.messages import WorkerHello
from elastane.train.coordinator.worker_table import Worker
from elastane.train.exit_cause import ExitCause


class Decider(Protocol):
    """Told what happened and when, it answers with actions; it has no clock and touches nothing itself."""

    @property
    def target(self) -> int:
        """How many workers there should be."""
        ...

    @property
    def step(self) -> int:
        """The last step known; 0 where nobody counts."""
        ...

    @property
    def workers(self) -> Mapping[str, Worker]:
        """Everybody, by name, the dead included."""
        ...

    @property
    def current(self) -> Plan | None:
        """Who trains, in rank order; None before the first start."""
        ...

    @property
    def staying(self) -> Sequence[str]:
        """Workers that train or will, and are not to leave; members first, in rank order."""
        ...

    @property
    def settled(self) -> bool:
        """Whether as many workers run as are wanted, and no change is under way."""
        ...

    @property
    def outcome(self) -> Finish | None:
        """How the job ended, once it has."""
        ...

    def start(self, now_s: float) -> list[Action]:
        """Ask for the first workers."""
        ...

    def resize(self, workers: int, now_s: float, drop: Iterable[str] = ()) -> list[Action]:
        """From now on ``workers`` of them, without those in ``drop``."""
        ...

    def stop(self, cause: ExitCause, now_s: float) -> list[Action]:
        """End the job; ``cause`` becomes that of its outcome."""
        ...

    def hello(self, hello: WorkerHello, now_s: float) -> list[Action]:
        """A worker connects, for the first time or again."""
        ...

    def started(self, name: str, now_s: float) -> list[Action]:
        """A worker's process exists, and can be signalled."""
        ...

    def said_goodbye(self, name: str, cause: str) -> None:
        """What ended a worker, as far as it said so itself; comes before ``exited``."""
        ...

    def exited(self, name: str, cause: ExitCause, now_s: float) -> list[Action]:
        """A worker's process is gone."""
        ...

    def tick(self, now_s: float) -> list[Action]:
        """Time has passed: deadlines are looked at."""
        ...
