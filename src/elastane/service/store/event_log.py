"""The event log keeps what happened and what was decided, in order."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from elastane.service.messages import EventRecord
from elastane.service.protocol import NotFound
from elastane.service.store.database import Database
from elastane.service.store.prepared import Found, Prepared
from elastane.service.store.rows import Decision, id_of, number_of
from elastane.service.store.tables import decisions, events

_AFTER = sa.select(events).where(events.c.seq > sa.bindparam("after")).order_by(events.c.seq)
_EVENTS = Prepared(_AFTER.limit(sa.bindparam("most")))
_EVENTS_OF_JOB = Prepared(_AFTER.where(events.c.job == sa.bindparam("number")).limit(sa.bindparam("most")))
_ADD_EVENT = Prepared(sa.insert(events))
_ADD_DECISION = Prepared(sa.insert(decisions))
_DECISIONS = Prepared(
    sa.select(decisions)
    .where(decisions.c.seq > sa.bindparam("after"))
    .order_by(decisions.c.seq)
    .limit(sa.bindparam("most"))
)
_name = sa.column("name", sa.Text)
_LAST = Prepared(
    # Not the newest row: after pruning there may be none, and readers must not start again at 0.
    sa.select(sa.column("seq", sa.Integer))
    .select_from(sa.table("sqlite_sequence"))
    .where(_name == sa.bindparam("table"))
)


class LogReads:
    """Queries on events and decisions."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def events(self, after: int = 0, limit: int = 1000, job: str | None = None) -> list[EventRecord]:
        """Entries after this one, oldest first; of one job or of all."""
        values = {"after": after, "most": max(0, limit)}
        if job is None:
            return self._db.all(_event, _EVENTS, values)
        number = number_of(job)
        if number is None:
            return []
        return self._db.all(_event, _EVENTS_OF_JOB, {**values, "number": number})

    def last_event_seq(self) -> int:
        """The newest entry; 0 before the first."""
        return _last(self._db, events)

    def decisions(self, after: int = 0, limit: int = 100) -> list[Decision]:
        """Decisions after this one, oldest first."""
        return self._db.all(_decision, _DECISIONS, {"after": after, "most": max(0, limit)})

    def last_decision_seq(self) -> int:
        """The newest decision; 0 before the first."""
        return _last(self._db, decisions)


class LogWrites(LogReads):
    """Writes events and decisions, within a transaction."""

    def append_event(self, kind: str, job: str | None = None, body: Mapping[str, Any] | None = None) -> int:
        """Append an event; returns its number in the log."""
        number = None if job is None else number_of(job)
        if job is not None and number is None:
            raise NotFound(f"there is no job {job}")
        values = {"at_s": self._db.clock(), "kind": kind, "job": number, "body": body or {}}
        return int(self._db.write(_ADD_EVENT, {**values, "seq": None}).lastrowid or 0)

    def add_decision(
        self,
        *,
        policy: str,
        view: Mapping[str, Any],
        plan: Mapping[str, Any],
        took_ms: float = 0.0,
        problem: str = "",
    ) -> int:
        """Store a decision of a policy, or its failure (``problem``); returns its number."""
        values = {
            "at_s": self._db.clock(),
            "policy": policy,
            "took_ms": took_ms,
            "problem": problem,
            "view": _packed(view),
            "plan": _packed(plan),
        }
        return int(self._db.write(_ADD_DECISION, {**values, "seq": None}).lastrowid or 0)

    def prune(self, keep_events: int, keep_decisions: int, at_most: int = 5000) -> int:
        """Delete all but the latest entries; at most ``at_most`` of each kind per call, so that no call takes long."""
        return self._forget(events, keep_events, at_most) + self._forget(decisions, keep_decisions, at_most)

    def _forget(self, table: sa.Table, keep: int, at_most: int) -> int:
        oldest = self._db.first(sa.select(sa.func.min(table.c.seq).label("seq")))
        if oldest is None or oldest["seq"] is None:
            return 0
        # Numbers have no gaps: what is rolled back gives its number back.
        last = min(_last(self._db, table) - max(0, keep), oldest["seq"] + max(0, at_most) - 1)
        return int(self._db.write(sa.delete(table).where(table.c.seq <= last)).rowcount)


def _last(database: Database, table: sa.Table) -> int:
    return database.one(lambda row: int(row["seq"]), _LAST, {"table": table.name}) or 0


def _event(found: Found) -> EventRecord:
    job = None if found["job"] is None else id_of(found["job"])
    return EventRecord(**{**found, "job": job})


def _decision(found: Found) -> Decision:
    return Decision(**{**found, "view": _unpacked(found["view"]), "plan": _unpacked(found["plan"])})


def _packed(values: Mapping[str, Any]) -> bytes:
    # A view repeats itself a lot: a tenth of the size for a fraction of a millisecond.
    return zlib.compress(json.dumps(values, separators=(",", ":")).encode(), 1)


def _unpacked(packed: bytes) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(zlib.decompress(packed))
    return values
