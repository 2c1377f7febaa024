"""The persistent state of the control plane: one SQLite file, one writer.

``Store`` has one part for each kind of thing it keeps: ``jobs``, ``log``, ``settings``, ``accounts`` and ``past``,
which answer queries.  The ``Transaction`` that ``with store.transaction()`` gives has parts of the same names, which
write as well; it happens wholly or not at all, and sees its own changes.  Who writes has to ``claim`` the store first,
which ends the right of whoever had it before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from elastane.errors import ElastaneError
from elastane.kit.atomic_files import sync
from elastane.service.store import backup
from elastane.service.store.accounts import AccountReads, AccountWrites
from elastane.service.store.clean_shutdown import put_seal, read_seal
from elastane.service.store.database import Clock, Database, connect
from elastane.service.store.errors import StoreError, missing
from elastane.service.store.event_log import LogReads, LogWrites
from elastane.service.store.failpoints import reach
from elastane.service.store.files import Files, make_folder, make_private
from elastane.service.store.history import PastReads, PastWrites
from elastane.service.store.integrity import examine, in_plain_words
from elastane.service.store.jobs import JobReads, JobWrites
from elastane.service.store.migrations import NEWEST, migrate
from elastane.service.store.settings import SettingReads, SettingWrites


class Transaction:
    """Writes to all parts of a store, which happen together or not at all."""

    def __init__(self, database: Database) -> None:
        self.jobs = JobWrites(database)
        self.log = LogWrites(database)
        self.settings = SettingWrites(database)
        self.accounts = AccountWrites(database)
        self.past = PastWrites(database)


class Store:
    """Queries on all parts of a store; ``open`` makes one."""

    def __init__(self, database: Database, warnings: tuple[str, ...]) -> None:
        self.jobs = JobReads(database)
        self.log = LogReads(database)
        self.settings = SettingReads(database)
        self.accounts = AccountReads(database)
        self.past = PastReads(database)
        self._db = database
        self.path = database.files.path
        self.warnings = warnings
        """What people should know, though it works."""
        self._clock = database.clock
        self._copied_s = self._clock()
        self._closed = False

    @classmethod
    def open(cls, path: Path, clock: Clock = time.time) -> Store:
        """The store at ``path``, created or brought up to date where needed.

        ``StoreError`` for a file that is damaged, of a newer version or not ours; it is left as it is.
        """
        files = Files(path.absolute())
        with in_plain_words(files):
            make_folder(files.path.parent)
            _create_missing(files)
            version = examine(files, NEWEST)
            files.path.chmod(0o600)
            warnings = _copy_if_clean(files, version)
            link = connect(files)
            try:
                migrate(link, files)
                return cls(Database(files, link, clock), warnings)
            except BaseException:
                link.close()
                raise

    @staticmethod
    def restore_good(path: Path) -> Path | None:
        """Go back to the last good copy; returns under which name the present file was kept, if there was one.

        No control plane may have the store open.
        """
        return backup.restore_good(Files(path.absolute()), NEWEST)

    def claim(self) -> int:
        """Become the one control plane that may write; returns the epoch, higher than every one before."""
        return self._db.claim()

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Everything written inside happens together when the block ends, or (on any exception) not at all."""
        self._db.begin()
        try:
            reach("transaction: begun")
            yield Transaction(self._db)
            self._db.commit()
        except BaseException:
            self._db.rollback()
            raise
        reach("transaction: after commit")

    def backup(self) -> None:
        """Make the last good copy anew, of what is committed.  Another thread may call it while this one writes."""
        backup.copy_good(self._db.files)
        self._copied_s = self._clock()

    def backup_due(self, every_s: float = 600.0) -> bool:
        """Whether the last good copy is older than that."""
        # Clocks are set back at times; a copy from the future is due as well.
        return not 0 <= self._clock() - self._copied_s < every_s

    def close(self) -> None:
        """Close the store and seal it, so that the next start need not check it for damage.  May be repeated."""
        if self._closed:
            return
        self._closed = True
        try:
            self._db.rollback()
            # Without a seal the next start takes longer, that is all.
            with suppress(ElastaneError, OSError):
                self._seal()
        finally:
            self._db.close()

    def _seal(self) -> None:
        if not self._db.claimed or not self._db.empty_wal():
            return
        # Only who still owns the store may seal it, and holds the lock so that nobody writes meanwhile.
        self._db.begin()
        try:
            if not self._db.files.has_wal():
                put_seal(self._db.files)
        finally:
            self._db.rollback()


def _create_missing(files: Files) -> None:
    if os.path.lexists(files.path):
        return
    if files.good.exists() or files.has_wal():
        raise missing(files)
    # Made under another name, so that a crash never leaves half a database under the right one.
    made = files.beside(f".new{os.getpid()}")
    make_private(made)
    try:
        with closing(connect(Files(made))) as link:
            migrate(link, Files(made))
        sync(made)
        reach("create: before link")
        # Unlike a rename, a link does not replace what another process put there meanwhile.
        with suppress(FileExistsError):
            os.link(made, files.path)
    finally:
        made.unlink(missing_ok=True)
    sync(files.path.parent)


def _copy_if_clean(files: Files, version: int) -> tuple[str, ...]:
    if read_seal(files) is None and files.good.exists() and version == NEWEST:
        return ()
    try:
        backup.copy_good(files)
    except StoreError as error:
        return (f"no good copy of the store could be made: {error}",)
    return ()
