"""Jobs in the store: which there are, and the rules no write may break.

A number is given once; what a job is never changes; a job that has ended stays as it ended; attempts only go up;
one user's request key means one job.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import sqlalchemy as sa

from elastane.jobs.states import State
from elastane.service.protocol import Conflict, NotFound, Which
from elastane.service.store.database import Database
from elastane.service.store.grant_json import grant_from_json, grant_to_json
from elastane.service.store.prepared import Found, Prepared
from elastane.service.store.rows import JobRow, id_of, number_of
from elastane.service.store.tables import jobs, request_keys

_FIELDS = tuple(field.name for field in fields(JobRow))
_IDENTITY = ("name", "owner", "tenant", "spec", "directory", "code_from", "submitted_s")
"""What a job is, as against how it fares."""

_ONE = Prepared(sa.select(jobs).where(jobs.c.number == sa.bindparam("wanted")))
_ACTIVE = sa.select(jobs).where(jobs.c.terminal == sa.false()).order_by(jobs.c.number)
_ENDED = (
    sa.select(jobs).where(jobs.c.terminal == sa.true()).order_by(jobs.c.ended_s.desc(), jobs.c.number.desc())
)
_BY_STATE = Prepared(sa.select(jobs.c.state, sa.func.count().label("jobs")).group_by(jobs.c.state))
_SERVICE = Prepared(
    sa.select(jobs.c.service_gpu_s)
    .where(jobs.c.state == State.SUCCEEDED.value)
    .order_by(jobs.c.ended_s.desc())
    .limit(sa.bindparam("most"))
)
_OF_KEY = Prepared(
    sa.select(request_keys.c.job).where(
        request_keys.c.user == sa.bindparam("who"), request_keys.c.key == sa.bindparam("which")
    )
)
_ADD = Prepared(sa.insert(jobs))
_ADD_KEY = Prepared(sa.insert(request_keys))
_CHANGE = Prepared(
    sa.update(jobs)
    .where(jobs.c.number == sa.bindparam("wanted"))
    .values({name: sa.bindparam(name) for name in (*_FIELDS, "terminal") if name not in (*_IDENTITY, "number")})
)
_TRAINING = ("seen", "training", "profile")
_CHANGE_TRAINING = Prepared(
    sa.update(jobs)
    .where(jobs.c.number == sa.bindparam("wanted"), jobs.c.attempt == sa.bindparam("of_attempt"))
    .values({name: sa.bindparam(name) for name in _TRAINING})
)


class JobReads:
    """Queries on jobs and request keys."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def job(self, job: str) -> JobRow | None:
        """The job with exactly this id."""
        number = number_of(job)
        return None if number is None else self._db.one(_row, _ONE, {"wanted": number})

    def active(self) -> list[JobRow]:
        """The rows of all jobs that have not ended, by number."""
        return self._db.all(_row, _ACTIVE)

    def ended(self, *, owner: str | None = None, tenant: str | None = None, limit: int = 1000) -> list[JobRow]:
        """The rows of jobs that have ended, the latest first."""
        return self._db.all(_row, _only(_ENDED, owner, tenant).limit(max(0, limit)))

    def listed(
        self, which: Which, *, owner: str | None = None, tenant: str | None = None, limit: int = 1000
    ) -> list[JobRow]:
        """The rows of active jobs by number, then of ended ones, the latest first."""
        found: list[JobRow] = []
        if which != "ended":
            found = self._db.all(_row, _only(_ACTIVE, owner, tenant).limit(max(0, limit)))
        if which != "active":
            found += self.ended(owner=owner, tenant=tenant, limit=limit - len(found))
        return found

    def count_by_state(self) -> dict[State, int]:
        """How many jobs are in each state that any is in."""
        return dict(self._db.all(lambda row: (State(row["state"]), int(row["jobs"])), _BY_STATE))

    def finished_service(self, limit: int = 1000) -> tuple[float, ...]:
        """Total service of jobs that ran to their end, GPU seconds, the latest last."""
        found = self._db.all(lambda row: float(row["service_gpu_s"]), _SERVICE, {"most": max(0, limit)})
        return tuple(reversed(found))

    def job_of_key(self, user: str, key: str) -> str | None:
        """The id of the job a user's request key stands for."""
        return self._db.one(lambda row: id_of(row["job"]), _OF_KEY, {"who": user, "which": key})


class JobWrites(JobReads):
    """Changes of jobs, within a transaction."""

    def add_job(
        self,
        *,
        name: str,
        owner: str,
        tenant: str,
        spec: Mapping[str, Any],
        directory: str,
        code_from: Mapping[str, Any] | None = None,
        kind: str,
        kind_reason: str = "",
        state: State = State.SUBMITTED,
        reason: str = "",
        key: str | None = None,
    ) -> JobRow:
        """Add a job under a new number; ``key`` is the request key that stands for it from now on."""
        now_s = self._db.clock()
        row = JobRow(
            number=0,
            name=name,
            owner=owner,
            tenant=tenant,
            spec=spec,
            directory=directory,
            code_from=code_from,
            kind=kind,
            kind_reason=kind_reason,
            state=state,
            reason=reason,
            submitted_s=now_s,
            last_change_s=now_s,
            as_of_s=now_s,
            ended_s=None,
        )
        made = self._db.write(_ADD, {**_values(row), "number": None})
        row = replace(row, number=int(made.lastrowid or 0))
        if key:
            self._add_key(owner, key, row.number)
        return row

    def save_job(self, row: JobRow) -> None:
        """Store how a job fares now; refused where it would break one of the rules above."""
        stored = self.job(row.id)
        if stored is None:
            raise NotFound(f"there is no job {row.id}")
        _check_change(stored, row)
        if row != stored:
            values = {name: value for name, value in _values(row).items() if name not in (*_IDENTITY, "number")}
            self._db.write(_CHANGE, {**values, "wanted": row.number})

    def save_training(self, row: JobRow) -> None:
        """Store what the training of this attempt reported, and nothing else: it comes often, and breaks no rule."""
        values = {name: getattr(row, name) for name in _TRAINING}
        self._db.write(_CHANGE_TRAINING, {**values, "wanted": row.number, "of_attempt": row.attempt})

    def remember_key(self, user: str, key: str, job: str) -> None:
        """Bind a user's request key to this job for good."""
        if self.job_of_key(user, key) == job:
            return
        number = number_of(job)
        if number is None or self.job(job) is None:
            raise NotFound(f"there is no job {job}")
        self._add_key(user, key, number)

    def _add_key(self, user: str, key: str, number: int) -> None:
        try:
            self._db.write(_ADD_KEY, {"user": user, "key": key, "job": number})
        except sqlite3.IntegrityError:
            known = self.job_of_key(user, key)
            raise Conflict(
                f"request key {key!r} stands for job {known} already; use another key for another job"
            ) from None


def _only(query: sa.Select[Any], owner: str | None, tenant: str | None) -> sa.Select[Any]:
    if owner is not None:
        query = query.where(jobs.c.owner == owner)
    if tenant is not None:
        query = query.where(jobs.c.tenant == tenant)
    return query


def _row(found: Found) -> JobRow:
    values = {name: value for name, value in found.items() if name != "terminal"}
    grant = None if found["grant"] is None else grant_from_json(found["grant"])
    return JobRow(**{**values, "grant": grant, "state": State(found["state"])})


def _values(row: JobRow) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in _FIELDS}
    grant = None if row.grant is None else grant_to_json(row.grant)
    return {**values, "state": row.state.value, "terminal": row.terminal, "grant": grant}


def _check_change(stored: JobRow, row: JobRow) -> None:
    if any(getattr(row, name) != getattr(stored, name) for name in _IDENTITY):
        raise Conflict(f"job {row.id} cannot become another job: its {', '.join(_IDENTITY)} are fixed")
    # Late facts about the training are welcome, anything else would rewrite the past.
    if stored.terminal and replace(row, training=stored.training, profile=stored.profile) != stored:
        raise Conflict(f"job {row.id} has ended ({stored.state.value}) and does not change any more")
    if row.attempt < stored.attempt:
        raise Conflict(
            f"job {row.id} is in attempt {stored.attempt} and cannot go back to attempt {row.attempt}"
        )
