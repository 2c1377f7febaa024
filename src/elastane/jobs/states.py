"""The life of a job as a table: states, events, and where each event leads.

```
submitted ─► queued ─► starting ─► running ⇄ resizing
               ▲                      │
               │◄── suspended ◄── suspending
               │◄── retrying / lost ◄─┤
                                      ▼
                       succeeded · failed · cancelled or rejected (through stopping, if it held anything)
```

Who asked for a change, and whether a person put the job on hold, is not a state: the first is in the
transition's detail, the second belongs to the queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from elastane.errors import ElastaneError


class State(Enum):
    """Where a job is in its life."""

    SUBMITTED = "submitted"  # stored, not yet judged
    QUEUED = "queued"  # admitted, holds nothing
    STARTING = "starting"  # workers are being launched
    RUNNING = "running"
    RESIZING = "resizing"  # moving from one grant to another
    SUSPENDING = "suspending"  # saving its work before it gives up its grant
    SUSPENDED = "suspended"  # holds nothing; goes on from its checkpoint
    STOPPING = "stopping"  # workers are being ended for good
    RETRYING = "retrying"  # failed by itself and waits for another attempt
    LOST = "lost"  # nobody can say what its workers do
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REJECTED = "rejected"  # refused or ended by its policy


class Event(Enum):
    """An event moves a job from one state to another.  The words complete "cannot … a job that is …"."""

    ADMIT = "admit"
    REJECT = "reject"
    START = "start"
    STARTED = "report the start of"
    RESIZE = "resize"
    RESIZED = "report the new size of"
    SUSPEND = "suspend"
    SAVED = "report the suspension of"
    CANCEL = "cancel"
    END = "end by policy"  # its policy ends it, unfinished
    STOPPED = "report the end of"
    FINISH = "finish"
    FAIL = "fail"  # ended with an error and has no attempt left
    CRASH = "retry later"  # ended with an error and has attempts left
    LOSE = "lose"  # its node or agent no longer answers
    RECOVER = "recover"  # its agent came back and the workers never stopped
    REQUEUE = "queue again"


_S, _E = State, Event

# What can befall a job that holds resources, in whichever phase it is.
_HOLDING: Mapping[Event, State] = {
    _E.SUSPEND: _S.SUSPENDING,
    _E.CANCEL: _S.STOPPING,
    _E.END: _S.STOPPING,
    _E.FAIL: _S.FAILED,
    _E.CRASH: _S.RETRYING,
    _E.LOSE: _S.LOST,
}
_WORKING: Mapping[Event, State] = {**_HOLDING, _E.FINISH: _S.SUCCEEDED}
_WAITING: Mapping[Event, State] = {_E.START: _S.STARTING, _E.CANCEL: _S.CANCELLED}

EDGES: Mapping[State, Mapping[Event, State]] = {
    _S.SUBMITTED: {_E.ADMIT: _S.QUEUED, _E.REJECT: _S.REJECTED, _E.CANCEL: _S.CANCELLED},
    # A deferred bid may still be refused once its time has run out.
    _S.QUEUED: {**_WAITING, _E.REJECT: _S.REJECTED},
    # A short command can end before anyone has reported its start.
    _S.STARTING: {**_WORKING, _E.STARTED: _S.RUNNING},
    _S.RUNNING: {**_WORKING, _E.RESIZE: _S.RESIZING},
    _S.RESIZING: {**_WORKING, _E.RESIZED: _S.RUNNING},
    _S.SUSPENDING: {
        **{event: target for event, target in _WORKING.items() if event is not _E.SUSPEND},
        _E.SAVED: _S.SUSPENDED,
    },
    _S.SUSPENDED: {**_WAITING, _E.REJECT: _S.REJECTED},
    # Nobody wants it any longer, so errors on the way out change nothing; a finished result still counts.
    _S.STOPPING: {
        _E.REJECT: _S.REJECTED,
        _E.STOPPED: _S.CANCELLED,
        _E.FAIL: _S.CANCELLED,
        _E.LOSE: _S.CANCELLED,
        _E.FINISH: _S.SUCCEEDED,
    },
    _S.RETRYING: {_E.REQUEUE: _S.QUEUED, _E.CANCEL: _S.CANCELLED},
    _S.LOST: {
        _E.RECOVER: _S.RUNNING,
        _E.REQUEUE: _S.QUEUED,
        _E.FAIL: _S.FAILED,
        _E.FINISH: _S.SUCCEEDED,
        _E.CANCEL: _S.STOPPING,
        _E.END: _S.STOPPING,
    },
    _S.SUCCEEDED: {},
    _S.FAILED: {},
    _S.CANCELLED: {},
    _S.REJECTED: {},
}
"""Every allowed step: from which state, by which event, to which state."""

TERMINAL = frozenset(state for state, edges in EDGES.items() if not edges)
"""States that nothing leaves."""

HOLDING = frozenset({_S.STARTING, _S.RUNNING, _S.RESIZING, _S.SUSPENDING, _S.STOPPING, _S.LOST})
"""States in which a job holds, or may still hold, part of the cluster."""


class InvalidTransition(ElastaneError):
    """An event that has no meaning in the present state; nothing was changed."""

    def __init__(self, state: State, event: Event) -> None:
        self.state, self.event = state, event
        super().__init__(f"cannot {event.value} a job that is {state.value}")


@dataclass(frozen=True, slots=True)
class Transition:
    """One recorded step of a job's life: when, from where to where, by which event, and the story behind it."""

    at_s: float
    source: State
    target: State
    cause: Event
    detail: str = ""


def advance(state: State, event: Event) -> State:
    """The state after ``event``; raises ``InvalidTransition`` where the table has no such edge."""
    try:
        return EDGES[state][event]
    except KeyError:
        raise InvalidTransition(state, event) from None


def step(state: State, event: Event, at_s: float, detail: str = "") -> Transition:
    """Do as ``advance`` does, and return the step as a record for the job's history."""
    return Transition(at_s, state, advance(state, event), event, detail)
