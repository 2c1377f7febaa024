"""One SQLite connection: its settings, its transactions, and whether we may still write.

Reads and writes are SQLAlchemy Core statements; those that are asked often are ``Prepared``.  One thread at a time; it
knows nothing of what the tables mean, except for the fence that keeps a replaced control plane from writing.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from elastane.errors import ElastaneError
from elastane.service.store import tables
from elastane.service.store.clean_shutdown import break_seal
from elastane.service.store.errors import StaleControlPlane, StoreError, damaged, failed
from elastane.service.store.failpoints import reach
from elastane.service.store.files import Files
from elastane.service.store.prepared import Found, Prepared, Values, to_json

Clock = Callable[[], float]
T = TypeVar("T")
Make = Callable[[Found], T]
Statement = sa.Executable | Prepared

_BUSY_S = 5.0
_NONSENSE = (ValueError, KeyError, TypeError, AttributeError, zlib.error)
_EPOCH = Prepared(sa.select(tables.fence.c.epoch))
_RAISE_EPOCH = sa.update(tables.fence).values(epoch=tables.fence.c.epoch + 1)
_PRAGMAS = (
    "PRAGMA synchronous=FULL",  # a commit that was acknowledged survives a power cut
    "PRAGMA foreign_keys=ON",
    "PRAGMA trusted_schema=OFF",
    "PRAGMA cell_size_check=ON",
    "PRAGMA journal_size_limit=8388608",
)


class Written(Protocol):
    """The outcome of a change: how many rows, and the number of a new one."""

    @property
    def lastrowid(self) -> int | None:
        """The number of the row that was added."""

    @property
    def rowcount(self) -> int:
        """How many rows were changed."""


def connect(files: Files) -> sqlite3.Connection:
    """A connection that may write, to a database that exists; transactions are begun and ended by hand."""
    link = sqlite3.connect(
        f"file:{quote(str(files.path))}?mode=rw",
        uri=True,
        timeout=_BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )
    (mode,) = link.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        link.close()
        raise StoreError(f"{files.path} lies on a disk that SQLite cannot share safely. Use a local disk.")
    for pragma in _PRAGMAS:
        link.execute(pragma)
    return link


class Database:
    """The connection, and at most one transaction."""

    def __init__(self, files: Files, link: sqlite3.Connection, clock: Clock) -> None:
        self.files, self.clock = files, clock
        self._link = link
        engine = sa.create_engine(
            "sqlite://",
            creator=lambda: link,
            poolclass=NullPool,
            json_serializer=to_json,
        )
        # SQLAlchemy's own transactions would begin with the first read; ours begin where we say so.
        self._connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        self._epoch: int | None = None
        self._open = False
        self._seal_may_stand = True

    def all(self, make: Make[T], statement: Statement, values: Values | None = None) -> list[T]:
        """The rows of a query, each made into a value; a row that cannot be read is damage."""
        try:
            return [make(row) for row in self._rows(statement, values)]
        except _NONSENSE as error:
            raise damaged(self.files, "is damaged (a row cannot be read)") from error

    def one(self, make: Make[T], statement: Statement, values: Values | None = None) -> T | None:
        """The value made of the first row."""
        found = self.all(make, statement, values)
        return found[0] if found else None

    def first(self, statement: Statement, values: Values | None = None) -> Found | None:
        """The first row of a query."""
        return self.one(lambda row: row, statement, values)

    def write(self, statement: Statement, values: Values | None = None) -> Written:
        """Execute a change as part of the transaction under way."""
        if not self._open:
            raise RuntimeError("the store is written to only within 'with store.transaction()'")
        result = self._run(statement, values)
        reach("transaction: inside")
        return result

    @property
    def claimed(self) -> bool:
        """Whether this connection claimed the store; another control plane may have done so since."""
        return self._epoch is not None

    def begin(self) -> None:
        """Take the write lock; refused within a transaction, and when another control plane has claimed the store."""
        if self._open:
            raise RuntimeError("a transaction is under way; transactions of the store do not nest")
        if self._epoch is None:
            raise RuntimeError("claim() the store before writing to it")
        self._lock()
        try:
            self._check_epoch()
        except BaseException:
            self.rollback()
            raise

    def claim(self) -> int:
        """Become the one control plane that may write to the store."""
        if self._open:
            raise RuntimeError("a transaction is under way; claim the store outside of it")
        self._lock()
        try:
            self.write(_RAISE_EPOCH)
            epoch = self._stored_epoch()
            self.commit()
        except BaseException:
            self.rollback()
            raise
        self._epoch = epoch
        return epoch

    def commit(self) -> None:
        """Commit the transaction; it is on disk when this returns."""
        if not self._open:
            raise RuntimeError("the store was closed within the transaction; nothing was written")
        reach("transaction: before commit")
        self._command("COMMIT")
        self._open = False

    def rollback(self) -> None:
        """Roll the transaction back, as if it had never begun."""
        if not self._open:
            return
        self._open = False
        # SQLite has rolled back by itself after some failures, such as a full disk.
        if self._link.in_transaction:
            with suppress(StoreError):
                self._command("ROLLBACK")

    def empty_wal(self) -> bool:
        """Carry everything over into the database file; False when others still read or write."""
        found = self.first(sa.text("PRAGMA wal_checkpoint(TRUNCATE)"))
        return found is not None and not found["busy"]

    def close(self) -> None:
        """Close the connection; a transaction under way is rolled back."""
        self.rollback()
        self._connection.close()

    def _lock(self) -> None:
        self._command("BEGIN IMMEDIATE")
        self._open = True
        if self._seal_may_stand:
            try:
                break_seal(self.files)
            except OSError as error:
                self.rollback()
                raise StoreError(f"{self.files.sealed} cannot be removed: {error.strerror}") from error
            self._seal_may_stand = False

    def _check_epoch(self) -> None:
        stored = self._stored_epoch()
        if stored != self._epoch:
            raise StaleControlPlane(
                f"another control plane has taken over {self.files.path} (epoch {stored}, this one has "
                f"{self._epoch}); nothing was written. This one has to stop."
            )

    def _stored_epoch(self) -> int:
        found = self.first(_EPOCH)
        if found is None:
            raise damaged(self.files, "is damaged (the fence is missing)")
        return int(found["epoch"])

    def _rows(self, statement: Statement, values: Values | None) -> list[Found]:
        with self._plainly():
            if isinstance(statement, Prepared):
                return statement.rows(self._link, values)
            return [row._asdict() for row in self._connection.execute(statement, values)]

    def _run(self, statement: Statement, values: Values | None) -> Written:
        with self._plainly():
            if isinstance(statement, Prepared):
                return statement.run(self._link, values)
            return self._connection.execute(statement, values)

    def _command(self, sql: str) -> None:
        with self._plainly():
            self._link.execute(sql)

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        """Turns database errors into one line for people."""
        try:
            yield
        except (DBAPIError, sqlite3.Error) as error:
            raise self._plain(error) from error
        except UnicodeEncodeError as error:
            raise ElastaneError("a text holds characters that are not valid Unicode; remove them") from error
        except OverflowError as error:
            raise ElastaneError("a number is too large to be stored; use a smaller one") from error

    def _plain(self, error: DBAPIError | sqlite3.Error) -> Exception:
        cause = error.orig if isinstance(error, DBAPIError) else error
        # A broken constraint is a defect of ours, not of the file.
        if isinstance(cause, sqlite3.IntegrityError) or not isinstance(cause, sqlite3.Error):
            return error
        return failed(self.files, cause)
