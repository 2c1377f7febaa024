"""The last good copy of the store: making it, and going back to it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from elastane.kit.atomic_files import sync
from elastane.service.store.errors import StoreError, damaged
from elastane.service.store.failpoints import reach
from elastane.service.store.files import Files, make_private, put_in_place
from elastane.service.store.integrity import examine, in_plain_words, look, quick_check


def copy_good(files: Files) -> None:
    """Copy what is committed now to ``files.good``.  Has a connection of its own, so any thread may call it."""
    made = files.beside(".good.new")
    with in_plain_words(files):
        try:
            _copy(files, made)
            put_in_place(made, files.good)
        finally:
            made.unlink(missing_ok=True)


def _copy(files: Files, made: Path) -> None:
    make_private(made)
    with closing(look(files)) as source, closing(sqlite3.connect(made, isolation_level=None)) as target:
        # The copy counts only once it has its name, so a journal of its own would protect nothing.
        target.execute("PRAGMA journal_mode=OFF")
        target.execute("PRAGMA synchronous=OFF")
        source.backup(target)
        reach("copy: written")
    found = _structure(made)
    if found:
        # The old copy stays: it may be all that is left.
        raise damaged(files, f"is damaged ({found})")


def _structure(path: Path) -> str:
    with closing(look(Files(path))) as connection:
        return quick_check(connection)


def restore_good(files: Files, newest: int) -> Path | None:
    """Put the good copy in the place of the database; returns the name the latter was kept under, if there was one.

    No control plane may have it open.  After a crash on the way the same call again mends it.
    """
    if not files.good.exists():
        raise StoreError(
            f"there is no good copy at {files.good}; move {files.path} away to begin with an empty store"
        )
    examine(Files(files.good), newest)
    made = files.beside(".restored")
    with in_plain_words(files):
        make_private(made)
        shutil.copyfile(files.good, made)
        kept = _set_aside(files)
        reach("restore: set aside")
        put_in_place(made, files.path)
    return kept


def _set_aside(files: Files) -> Path | None:
    kept = _free_name(files)
    # The wal goes first: it must never be applied to a file it does not belong to.
    for ending in ("-wal", "-shm", ".seal"):
        part = files.beside(ending)
        if part.exists():
            part.rename(Files(kept).beside(ending))
    found = files.path.exists()
    if found:
        files.path.rename(kept)
    sync(files.path.parent)
    return kept if found else None


def _free_name(files: Files) -> Path:
    number = 1
    while any(
        os.path.lexists(Files(files.beside(f".bad{number}")).beside(end)) for end in ("", "-wal", ".seal")
    ):
        number += 1
    return files.beside(f".bad{number}")
