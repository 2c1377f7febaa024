"""Settings in the store: a few JSON values that outlive a restart, each under its key."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert as insert_or

from elastane.service.store.database import Database
from elastane.service.store.prepared import Prepared
from elastane.service.store.tables import settings

_ONE = Prepared(sa.select(settings.c.value).where(settings.c.key == sa.bindparam("wanted")))
_PUT = insert_or(settings)
_PUT = _PUT.on_conflict_do_update(index_elements=["key"], set_={"value": _PUT.excluded.value})


class SettingReads:
    """Queries on settings, by their keys."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def get(self, key: str) -> Any:
        """The setting stored under this key, or None."""
        found = self._db.first(_ONE, {"wanted": key})
        return None if found is None else found["value"]


class SettingWrites(SettingReads):
    """Writes settings, within a transaction."""

    def put(self, key: str, value: Any) -> None:
        """Store a setting, a JSON value, under its key."""
        self._db.write(_PUT, {"key": key, "value": value})
