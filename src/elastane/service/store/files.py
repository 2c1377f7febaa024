"""The files of a store, and how to write files that are there either wholly or not at all.

``elastane.db`` with SQLite's own ``-wal`` and ``-shm``; ``elastane.db.good``, the last good copy;
``elastane.db.seal``, a digest of the database that exists only while nobody has it open (see ``seal``).
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from elastane.kit.atomic_files import sync
from elastane.service.store.failpoints import reach


@dataclass(frozen=True, slots=True)
class Files:
    """The paths of the files of one store."""

    path: Path

    def beside(self, ending: str) -> Path:
        """A file next to the database, with its name and an ending."""
        return self.path.with_name(self.path.name + ending)

    @property
    def good(self) -> Path:
        """The path of the last good copy."""
        return self.beside(".good")

    @property
    def sealed(self) -> Path:
        """The path of the seal, the mark of a clean shutdown."""
        return self.beside(".seal")

    @property
    def wal(self) -> Path:
        """What was written and is not yet in the database file."""
        return self.beside("-wal")

    @property
    def shm(self) -> Path:
        """SQLite's index of the ``wal``; worthless without a process."""
        return self.beside("-shm")

    def has_wal(self) -> bool:
        """Whether part of the content lies in the ``wal``."""
        return self.wal.exists() and self.wal.stat().st_size > 0


def make_folder(folder: Path) -> None:
    """Create it for the owner's eyes only; one that exists keeps the rights its owner gave it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def make_private(path: Path) -> None:
    """Create an empty file that only its owner can read, in place of any left from a crash."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))


def put_in_place(made: Path, path: Path) -> None:
    """Give a finished file its name, in place of what has it now."""
    sync(made)
    reach("file: before rename")
    made.replace(path)
    sync(path.parent)
    reach("file: after rename")


def digest(path: Path) -> str:
    """The digest of a file's whole content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()
