"""Prepared statements: their text for SQLite, and how values go in and come out, worked out once.

SQLAlchemy compiles them; run, they go straight to the connection, which takes a tenth of the time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

Values = Mapping[str, Any]
Found = Mapping[str, Any]
"""One row, by the names of its columns."""
_Convert = Callable[[Any], Any]

to_json = partial(json.dumps, separators=(",", ":"))
_DIALECT = SQLiteDialect_pysqlite(paramstyle="named", json_serializer=to_json)


class Prepared:
    """A query with its parameters (``sa.bindparam``), a change, or an insertion of whole rows into a table."""

    def __init__(self, statement: sa.Select[Any] | sa.Insert | sa.Update) -> None:
        self._statement = statement

    def run(self, link: sqlite3.Connection, values: Values | None) -> sqlite3.Cursor:
        """Execute the statement with these values."""
        return self._ready.run(link, values)

    def rows(self, link: sqlite3.Connection, values: Values | None) -> list[Found]:
        """The rows that the query finds."""
        ready = self._ready
        return [ready.row(row) for row in ready.run(link, values).fetchall()]

    @cached_property
    def _ready(self) -> _Ready:
        # When it is first asked: to compile all of them is a good part of the time a start takes.
        return _Ready(self._statement)


class _Ready:
    def __init__(self, statement: sa.Select[Any] | sa.Insert | sa.Update) -> None:
        compiled = statement.compile(dialect=_DIALECT)
        self._sql = str(compiled)
        self._given: Values = dict(compiled.params)
        self._in = _converters({name: bind.type for name, bind in compiled.binds.items()}, _into)
        found = statement.selected_columns if isinstance(statement, sa.Select) else ()
        self._names = tuple(column.name for column in found)
        self._out = _converters({column.name: column.type for column in found}, _out_of)

    def run(self, link: sqlite3.Connection, values: Values | None) -> sqlite3.Cursor:
        given = {**self._given, **values} if values else dict(self._given)
        for name, convert in self._in.items():
            given[name] = convert(given[name])
        return link.execute(self._sql, given)

    def row(self, row: tuple[Any, ...]) -> Found:
        found = dict(zip(self._names, row, strict=True))
        for name, convert in self._out.items():
            found[name] = convert(found[name])
        return found


def _converters(
    types: Mapping[str, sa.types.TypeEngine[Any]],
    converter: Callable[[sa.types.TypeEngine[Any]], _Convert | None],
) -> dict[str, _Convert]:
    """Only for those that are not stored as they are."""
    found = {name: converter(type_.dialect_impl(_DIALECT)) for name, type_ in types.items()}
    return {name: convert for name, convert in found.items() if convert is not None}


def _into(type_: sa.types.TypeEngine[Any]) -> _Convert | None:
    return type_.bind_processor(_DIALECT)


def _out_of(type_: sa.types.TypeEngine[Any]) -> _Convert | None:
    return type_.result_processor(_DIALECT, None)
