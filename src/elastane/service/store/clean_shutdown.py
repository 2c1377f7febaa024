"""The mark of a clean shutdown: a digest of the database file, broken before anything is written again.

SQLite notices a damaged structure, not a flipped bit in a row.  The seal notices both, and while it is whole
the slower check of the structure is not needed.  It is made and broken by whoever holds SQLite's write lock, so two
processes cannot disagree about it; without a seal nothing is lost but time.
"""

from __future__ import annotations

from elastane.kit.atomic_files import sync
from elastane.service.store.failpoints import reach
from elastane.service.store.files import Files, digest, make_private, put_in_place


def read_seal(files: Files) -> str | None:
    """The digest, or None where the last shutdown was not clean."""
    try:
        return files.sealed.read_text(encoding="ascii").strip() or None
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def put_seal(files: Files) -> None:
    """Mark the present content as complete; the caller holds the write lock and has emptied the ``wal``."""
    made = files.beside(".seal.new")
    make_private(made)
    made.write_text(digest(files.path) + "\n", encoding="ascii")
    put_in_place(made, files.sealed)


def break_seal(files: Files) -> None:
    """Remove the seal, because the content may change from now on; the caller holds the write lock."""
    if not files.sealed.exists():
        return
    files.sealed.unlink(missing_ok=True)
    # Were the name to come back after a power cut, a good database would look damaged.
    sync(files.path.parent)
    reach("seal: broken")
