"""Active jobs in memory, all jobs in the store: the only way in which what becomes of a job is written down.

Each change of a job is written in one transaction, together with its entry in the event log, before the engine hears
of it.  The engine is told the whole wanted state again and again, so a crash between the two is repaired by the next
round, of this control plane or of the one after it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import ceil

from elastane.cluster import Node
from elastane.engines.contract import places_of
from elastane.jobs.states import EDGES, HOLDING, Event, State
from elastane.service.control.active_job import LiveJob
from elastane.service.control.state_after_end import Outcome
from elastane.service.history import JobHistory
from elastane.service.store import Store, Transaction
from elastane.service.store.rows import JobRow

Clock = Callable[[], float]
_MOST_GPUS = 1024


class Ledger:
    """Jobs that have not ended, and what is written of them."""

    def __init__(self, store: Store, past: JobHistory, accelerator: Callable[[], str], clock: Clock) -> None:
        self.store = store
        self._past, self._accelerator, self._clock = past, accelerator, clock
        self._live: dict[str, LiveJob] = {}
        self._ended: list[str] = []
        self._unread: dict[str, str] = {}
        self._left_places: dict[str, dict[str, int]] = {}

    @property
    def live(self) -> Mapping[str, LiveJob]:
        """Jobs by id that have not ended, in the order in which they were taken in."""
        return self._live

    @property
    def unread(self) -> Mapping[str, str]:
        """Active jobs in the store that are not held here, and why."""
        return self._unread

    def add(self, job: LiveJob) -> None:
        """Hold a job from now on; it is stored already."""
        self._unread.pop(job.id, None)
        self._left_places.pop(job.id, None)
        self._live[job.id] = job

    def leave_out(self, row: JobRow, why: str) -> None:
        """Go on without a job, which stays as it is stored until it is cancelled or a start can read it."""
        self._unread[row.id] = f"{why}; it can be cancelled"
        if row.state in HOLDING:
            self._left_places[row.id] = {node: ceil(n * _gpus(row)) for node, n in places_of(row.grant).items()}

    def left_to_others(self, nodes: Mapping[str, Node]) -> dict[str, Node]:
        """These nodes without the slots of jobs that are not held here, but may still run."""
        left = dict(nodes)
        for places in self._left_places.values():
            for name, slots in places.items():
                if name in left:
                    left[name] = replace(left[name], gpus=max(0, left[name].gpus - slots))
        return left

    def drop_ended(self) -> None:
        """Hold no job any longer that has ended."""
        ended, self._ended = self._ended, []
        for job_id in ended:
            job = self._live.get(job_id)
            if job is not None and job.row.terminal:  # its end may not have been stored after all
                del self._live[job_id]

    def follow(self, t: Transaction, job: LiveJob, outcome: Outcome) -> None:
        """Store what becomes of a job, and hold it."""
        before = job.row.state
        row = replace(
            outcome.row,
            seen=max(outcome.row.seen, job.row.seen),
            training=job.learned.training_json(),
            profile=job.learned.profile_json(),
        )
        t.jobs.save_job(row)
        for event, words in outcome.steps:
            self.record(t, row, before, event, words)
            before = EDGES[before].get(event, before)
        job.row = row
        if row.terminal:
            self._ended.append(job.id)
            self._past.keep(t, job, self._accelerator())
        if outcome.retry_in_s:
            job.retry_s = self._clock() + outcome.retry_in_s

    @contextlib.contextmanager
    def changing(self) -> Iterator[Transaction]:
        """A transaction; what is not stored has not happened to the jobs in memory either."""
        before = [(job, job.row, job.places, job.since_s, job.retry_s) for job in self._live.values()]
        try:
            with self.store.transaction() as t:
                yield t
        except BaseException:
            for job, row, places, since_s, retry_s in before:
                job.row, job.places, job.since_s, job.retry_s = row, places, since_s, retry_s
            raise

    def record(self, t: Transaction, row: JobRow, before: State, event: Event, words: str) -> None:
        """A step of a job's life, for the event log."""
        after = EDGES[before].get(event, before)
        body = {"from": before.value, "to": after.value, "cause": event.name.lower(), "detail": words}
        t.log.append_event("state", row.id, {**body, "attempt": row.attempt, "workers": places_of(row.grant)})


def _gpus(row: JobRow) -> float:
    """Slots that one worker of a job takes, as far as its stored spec says so in plain numbers."""
    workers = row.spec.get("workers")
    inner = workers.get("resources") if isinstance(workers, Mapping) else None
    said = row.spec.get("resources") or inner
    gpus = said.get("gpus", 1) if isinstance(said, Mapping) else 1
    return float(gpus) if isinstance(gpus, int | float) and 0 <= gpus <= _MOST_GPUS else 1.0
