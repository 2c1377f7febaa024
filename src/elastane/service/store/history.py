"""Past jobs' experiences in the store: one row per job, forgotten when the pool has no room for it any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert as insert_or

from elastane.service.store.database import Database
from elastane.service.store.tables import experiences

_AFTER = (
    sa.select(experiences)
    .where(experiences.c.seq > sa.bindparam("after"))
    .order_by(experiences.c.seq)
    .limit(sa.bindparam("most"))
)
_PUT = insert_or(experiences)
_PUT = _PUT.on_conflict_do_update(index_elements=["job"], set_={"body": _PUT.excluded.body})
_REMOVE = sa.delete(experiences).where(experiences.c.job == sa.bindparam("gone"))


class PastReads:
    """Queries on what past jobs teach."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def experiences(self, after: int = 0, limit: int = 1000) -> list[tuple[int, Mapping[str, Any]]]:
        """(place, what the job teaches) after that place, in the order in which jobs ended."""
        values = {"after": after, "most": max(0, limit)}
        return self._db.all(lambda row: (int(row["seq"]), row["body"]), _AFTER, values)


class PastWrites(PastReads):
    """Writes what past jobs teach, within a transaction."""

    def keep_experience(self, job: int, body: Mapping[str, Any]) -> None:
        """Store what the job with this number teaches."""
        self._db.write(_PUT, {"job": job, "body": body})

    def remove_experiences(self, jobs: Iterable[int]) -> None:
        """Delete what the jobs with these numbers teach."""
        for job in jobs:
            self._db.write(_REMOVE, {"gone": job})
