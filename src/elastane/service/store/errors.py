"""The errors of the store, each in one line with the next step."""

from __future__ import annotations

import sqlite3
import time

from elastane.errors import ElastaneError
from elastane.service.store.files import Files

HOW_TO_RESTORE = "elastane up --restore"
"""The command that calls ``Store.restore_good``."""


class StoreError(ElastaneError):
    """The store cannot be read or written; what it held before is untouched."""


class StaleControlPlane(ElastaneError):
    """Another control plane owns the store now; nothing was written."""


def damaged(files: Files, what: str) -> StoreError:
    """A file that is not what we wrote."""
    return StoreError(f"{files.path} {what}; it was left as it is. {_way_back(files)}")


def missing(files: Files) -> StoreError:
    """A database that is gone while what belongs to it is there."""
    return StoreError(
        f"{files.path} is missing, though there was a store here. {_way_back(files)} "
        f"To begin with an empty store instead, move {files.path.name}* away."
    )


def _way_back(files: Files) -> str:
    try:
        made_s = files.good.stat().st_mtime
    except OSError:
        return "There is no good copy of it; move it away to begin with an empty store."
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime(made_s))
    return (
        f"Its last good copy is {files.good} ({made}): "
        f"go back to it with '{HOW_TO_RESTORE}', which also keeps the present file."
    )


def failed(files: Files, error: sqlite3.Error) -> StoreError:
    """What SQLite said, for people."""
    # The lower byte is the kind of failure, the others say where in SQLite it was noticed.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT):
        return damaged(files, f"is damaged ({error})")
    if code == sqlite3.SQLITE_FULL:
        return StoreError(
            f"{files.path}: no space left on the disk; nothing was changed. Free some and try again."
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreError(f"{files.path} is in use by another process; nothing was changed. Try again.")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN):
        return StoreError(f"{files.path} cannot be written ({error}). Check who owns it and its directory.")
    return StoreError(f"{files.path} failed ({error}); nothing was changed. Check the disk and start again.")


def unreachable(files: Files, error: OSError) -> StoreError:
    """What the operating system said, for people."""
    said = error.strerror or str(error)
    return StoreError(
        f"{files.path} cannot be used: {said.lower()}. Check the disk, and who owns the directory."
    )
