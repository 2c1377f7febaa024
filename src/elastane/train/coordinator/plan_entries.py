"""Defines every entry of a plan log, what a coordinator must not forget: a JSON object with a ``type`` on each line.

``entries_in`` is the one decoder.  A log may be that of an earlier or a later version: a type or field that is not
known is passed over, and so is a line without sense (torn by a crash, it never took effect).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from elastane.codec import decoded, encoded
from elastane.train.coordinator.membership_plan import Plan
from elastane.train.coordinator.wire import Line, Message
from elastane.train.exit_cause import FINISHED, ExitCause, ExitKind

_KINDS = {"finished": ExitKind.FINISHED, "stopped": ExitKind.CANCELLED}


class TargetSet(Message, frozen=True, tag="target"):
    """So many workers are wanted from now on."""

    workers: int


class WorkerSpawned(Message, frozen=True, tag="spawn"):
    """A worker is started; its name is never used again."""

    worker: str


class WorkerPlaced(Message, frozen=True, tag="placed"):
    """A node was chosen for a worker; it comes before the worker is started there."""

    worker: str
    node: str


class WorkerGone(Message, frozen=True, tag="gone"):
    """A worker was lost, or given up."""

    worker: str


class WorkerDone(Message, frozen=True, tag="done"):
    """A worker has come to the end of training."""

    worker: str


class PlanMade(Message, frozen=True, tag="plan"):
    """A plan was published."""

    plan: Plan


class GenerationsStored(Message, frozen=True, tag="stored"):
    """Generations up to this one belong to runs whose log was lost."""

    generation: int


class MemoryLimited(Message, frozen=True, tag="limit"):
    """More samples than this did not fit into memory (``Plan.most``)."""

    samples: int


class LoopsCounted(Message, frozen=True, tag="counts"):
    """The script limits its loops by a counter of its own: who comes, comes where one begins (``Plan.at_loop``)."""


class JobEnded(Message, frozen=True, tag="finish"):
    """The run is over; a later run may go on in the same log."""

    outcome: str
    cause: str
    """In words; empty where nothing went wrong."""
    exit: Any = None
    """The cause as JSON; earlier versions wrote the outcome and words only."""

    @classmethod
    def by(cls, exit: ExitCause) -> JobEnded:
        """The entry for an end with this cause."""
        return cls(exit.outcome, "" if exit.clean else str(exit), encoded(exit))

    @property
    def exit_cause(self) -> ExitCause:
        """How the run ended, as exactly as this entry says."""
        try:
            return decoded(ExitCause, self.exit)
        except ValueError:
            kind = _KINDS.get(self.outcome, ExitKind.GIVEN_UP)
            return FINISHED if kind is ExitKind.FINISHED else ExitCause(kind, detail=self.cause)


Entry = (
    TargetSet
    | WorkerSpawned
    | WorkerPlaced
    | WorkerGone
    | WorkerDone
    | PlanMade
    | GenerationsStored
    | MemoryLimited
    | LoopsCounted
    | JobEnded
)
_ENTRIES: Line[Entry] = Line("a plan log", *get_args(Entry))


def entries_in(data: bytes) -> Iterator[Entry]:
    r"""The entries of a log, in order.

    >>> list(entries_in(b'{"type":"gone","worker":"w1"}\n{"type":"of a later version"}\n{"type":"go'))
    [WorkerGone(worker='w1')]
    """
    for line in data.splitlines():
        try:
            yield _ENTRIES.decode(line)
        except ValueError:
            continue
