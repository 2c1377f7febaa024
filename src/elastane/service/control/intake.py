"""Takes jobs in.  Those that come at the same time share one transaction: the disk is waited for once for all of them.

Nobody is told that a job is taken before it is on disk, together with its request key, its entry in the event log and
the one in the audit log.  A lone job is written at once; under load the disk has half of the time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from elastane.jobs import JobSpec
from elastane.jobs.states import Event, State
from elastane.service.control.active_job import LiveJob
from elastane.service.control.job_measurements import JobMeasurements
from elastane.service.control.ledger import Ledger
from elastane.service.protocol import Conflict
from elastane.service.store import Store, Transaction
from elastane.service.store.rows import JobRow

_REST, _LONGEST_REST_S = 1.0, 0.02
"""Rest after a write, in times that it took: meanwhile more come in, and share the next."""
ACTION = "submit_job"
"""What the audit log calls it."""


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job that was checked and can be stored."""

    owner: str
    key: str | None
    spec: JobSpec
    values: Mapping[str, Any]
    """The same as JSON values."""
    directory: str
    kind: str
    why_kind: str
    warnings: tuple[str, ...] = ()
    """What its owner should know."""
    code_from: Mapping[str, Any] | None = None
    """Where its code comes from, as JSON values; None where nothing was said."""


class Intake:
    """Lets jobs into a ledger; ``most`` is how many a tenant may have waiting, ``poke`` says that one arrived."""

    def __init__(self, ledger: Ledger, store: Store, most: int, poke: Callable[[str], None]) -> None:
        self._ledger, self._database, self._most, self._poke = ledger, store, most, poke
        self._waiting: list[tuple[NewJob, asyncio.Future[JobRow]]] = []
        self._keys: dict[tuple[str, str], asyncio.Future[JobRow]] = {}
        self._free_s = 0.0
        self._pending: Counter[str] = Counter()
        """Jobs by tenant that hold nothing, those under way included; as of when the group began."""

    def under_way(self, owner: str, key: str) -> asyncio.Future[JobRow] | None:
        """The job of this request key, if it is being stored just now."""
        return self._keys.get((owner, key))

    async def take(self, job: NewJob) -> JobRow:
        """Returns when the job is stored."""
        loop = asyncio.get_running_loop()
        self._count(job.spec.tenant)
        if not self._waiting:
            loop.call_later(max(0.0, self._free_s - loop.time()), self._store_waiting)
        stored: asyncio.Future[JobRow] = loop.create_future()
        self._waiting.append((job, stored))
        if job.key:
            self._keys[job.owner, job.key] = stored
        # Shielded: whoever asked may hang up, the others of the group and of the same key still want to know.
        return await asyncio.shield(stored)

    def _count(self, tenant: str) -> None:
        """Refuse a job beyond what its tenant may have waiting: each of them costs every decision something."""
        if not self._waiting:  # once for all that share a write: there may be thousands of jobs
            self._pending = Counter(job.row.tenant for job in self._ledger.live.values() if not job.holding)
        if self._pending[tenant] >= self._most:
            raise Conflict(
                f"tenant {tenant} has {self._pending[tenant]:,} jobs waiting and may have {self._most:,}; "
                "wait until some have started, cancel some, or let an admin raise 'elastane up --max-pending'"
            )
        self._pending[tenant] += 1

    def _store_waiting(self) -> None:
        group, self._waiting, self._keys = self._waiting, [], {}
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        if not self._store(group) and len(group) > 1:
            # Whatever is wrong with one is not the others' fault.
            for one in group:
                self._store([one])
        self._free_s = loop.time() + min(_LONGEST_REST_S, _REST * (loop.time() - began_s))

    def _store(self, group: list[tuple[NewJob, asyncio.Future[JobRow]]]) -> bool:
        """Whether all are stored; a single one that is not is told why."""
        try:
            with self._database.transaction() as t:
                rows = [self._add(t, job) for job, _ in group]
        except Exception as error:  # handed on to whoever waits for it
            if len(group) == 1:
                stored = group[0][1]
                stored.set_exception(error)
                stored.exception()  # somebody who hung up does not ask
            return False
        for (job, stored), row in zip(group, rows, strict=True):
            self._ledger.add(LiveJob(row, job.spec, JobMeasurements(row.kind)))
            stored.set_result(row)
        self._poke("arrival")
        return True

    def _add(self, t: Transaction, job: NewJob) -> JobRow:
        row = t.jobs.add_job(
            name=job.spec.name,
            owner=job.owner,
            tenant=job.spec.tenant,
            spec=job.values,
            directory=job.directory,
            code_from=job.code_from,
            kind=job.kind,
            kind_reason=job.why_kind,
            state=State.QUEUED,
            key=job.key,
        )
        self._ledger.record(t, row, State.SUBMITTED, Event.ADMIT, "")
        t.accounts.add_audit(job.owner, ACTION, row.id, "ok")
        return row
