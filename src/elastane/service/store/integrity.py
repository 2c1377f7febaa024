"""Checks that a file is a whole store of ours.  It only looks: a damaged file is never changed, not even by SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import quote

from elastane.service.store.clean_shutdown import read_seal
from elastane.service.store.errors import StoreError, damaged, failed, unreachable
from elastane.service.store.files import Files, digest

APPLICATION = 0x456C6173
"""Stands in the header of every store of ours ("Elas"), so that another program's database is not taken for one."""

_HEADER_BYTES = 100


def examine(files: Files, newest: int) -> int:
    """The version of a store's schema; ``StoreError`` unless it is whole and no newer than ``newest``."""
    try:
        _check_header(files)
        with closing(look(files)) as connection:
            version = _version(files, connection, newest)
            _check_content(files, connection)
            return version
    except sqlite3.Error as error:
        raise failed(files, error) from error
    except OSError as error:
        raise unreachable(files, error) from error
    except (MemoryError, ValueError, OverflowError) as error:
        raise damaged(files, "is damaged (it cannot be read)") from error


def look(files: Files) -> sqlite3.Connection:
    """A connection that cannot write, nor carry the ``wal`` over into the file when it is closed."""
    # Without a wal nobody is writing, and "immutable" keeps SQLite from leaving files of its own behind.
    how = "mode=ro" if files.wal.exists() else "mode=ro&immutable=1"
    return sqlite3.connect(f"file:{quote(str(files.path))}?{how}", uri=True, timeout=5.0)


def quick_check(connection: sqlite3.Connection) -> str:
    """What SQLite finds wrong with the structure; empty when nothing is."""
    with closing(connection.execute("PRAGMA quick_check(1)")) as found:
        said = str(found.fetchone()[0])
    return "" if said == "ok" else said.splitlines()[-1]


@contextmanager
def in_plain_words(files: Files) -> Iterator[None]:
    """Failures of SQLite and of the operating system become one line for people."""
    try:
        yield
    except sqlite3.Error as error:
        raise failed(files, error) from error
    except OSError as error:
        raise unreachable(files, error) from error


def _check_header(files: Files) -> None:
    with files.path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if not header:
        raise damaged(files, "is empty")
    if not header.startswith(b"SQLite format 3\0"):
        raise damaged(files, "is not a database")
    if len(header) < _HEADER_BYTES:
        raise damaged(files, "is cut short")


def _version(files: Files, connection: sqlite3.Connection, newest: int) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    if application != APPLICATION or version < 1:
        raise damaged(files, "is not a store of Elastane (the database of another program, or damaged)")
    if version > newest:
        raise StoreError(
            f"{files.path} was written by a newer Elastane (store version {version}, this one knows {newest}); "
            "it was left as it is. Install that version again, or set ELASTANE_HOME to another directory."
        )
    return version


def _check_content(files: Files, connection: sqlite3.Connection) -> None:
    seal = read_seal(files)
    if seal is not None:
        if seal != digest(files.path):
            raise damaged(files, "is damaged (it is not what was there at the last shutdown)")
        return
    found = quick_check(connection)
    if found:
        raise damaged(files, f"is damaged ({found})")
