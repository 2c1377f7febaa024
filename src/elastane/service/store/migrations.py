"""The schema of the store as a list of numbered steps.  A step that was ever released is never edited.

The number of the last step taken stands in the database (``user_version``).  ``tables`` has the sum of all steps
as the queries see it; a test holds the two together.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from elastane.service.store.clean_shutdown import break_seal
from elastane.service.store.failpoints import reach
from elastane.service.store.files import Files
from elastane.service.store.integrity import APPLICATION


@dataclass(frozen=True, slots=True)
class Migration:
    """From one version of the schema to the next."""

    title: str
    statements: tuple[str, ...]


_JOBS_AND_LOG = Migration(
    "jobs, events, decisions and settings",
    (
        """CREATE TABLE fence (id INTEGER PRIMARY KEY CHECK (id = 1), epoch INTEGER NOT NULL)""",
        """INSERT INTO fence VALUES (1, 0)""",
        # AUTOINCREMENT: a number is never given twice, even after its row is gone.
        """CREATE TABLE jobs (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            name TEXT NOT NULL, owner TEXT NOT NULL, tenant TEXT NOT NULL,
            spec TEXT NOT NULL, directory TEXT NOT NULL,
            state TEXT NOT NULL, terminal INTEGER NOT NULL CHECK (terminal IN (0, 1)),
            held INTEGER NOT NULL, pinned_workers INTEGER, pinned_node TEXT,
            kind TEXT NOT NULL, kind_reason TEXT NOT NULL,
            attempt INTEGER NOT NULL, "grant" TEXT,
            ending TEXT NOT NULL CHECK (ending IN ('', 'suspend', 'cancel')),
            reason TEXT NOT NULL, code INTEGER,
            submitted_s REAL NOT NULL, first_start_s REAL, last_change_s REAL NOT NULL, ended_s REAL,
            as_of_s REAL NOT NULL, service_gpu_s REAL NOT NULL, held_s REAL NOT NULL,
            restarts INTEGER NOT NULL, failures INTEGER NOT NULL, seen INTEGER NOT NULL,
            training TEXT NOT NULL, profile TEXT NOT NULL
        )""",
        "CREATE INDEX jobs_unfinished ON jobs (terminal, number)",
        "CREATE INDEX jobs_ended ON jobs (terminal, ended_s)",
        "CREATE INDEX jobs_of_owner ON jobs (terminal, owner, ended_s)",
        "CREATE INDEX jobs_of_tenant ON jobs (terminal, tenant, ended_s)",
        "CREATE INDEX jobs_by_state ON jobs (state, ended_s, service_gpu_s)",
        """CREATE TABLE request_keys (
            user TEXT NOT NULL, key TEXT NOT NULL, job INTEGER NOT NULL REFERENCES jobs (number),
            PRIMARY KEY (user, key)
        ) WITHOUT ROWID""",
        """CREATE TABLE events (
            seq INTEGER PRIMARY KEY AUTOINCREMENT, at_s REAL NOT NULL, kind TEXT NOT NULL,
            job INTEGER REFERENCES jobs (number), body TEXT NOT NULL
        )""",
        "CREATE INDEX events_of_job ON events (job, seq)",
        """CREATE TABLE decisions (
            seq INTEGER PRIMARY KEY AUTOINCREMENT, at_s REAL NOT NULL, policy TEXT NOT NULL,
            took_ms REAL NOT NULL, problem TEXT NOT NULL, view BLOB NOT NULL, plan BLOB NOT NULL
        )""",
        "CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    ),
)

_ACCOUNTS = Migration(
    "users, tokens, quotas and audit log",
    (
        """CREATE TABLE users (
            name TEXT PRIMARY KEY, role TEXT NOT NULL CHECK (role IN ('viewer', 'user', 'admin')),
            tenant TEXT NOT NULL
        ) WITHOUT ROWID""",
        """CREATE TABLE tokens (
            id TEXT PRIMARY KEY, user TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
            label TEXT NOT NULL, digest BLOB NOT NULL,
            created_s REAL NOT NULL, expires_s REAL, revoked INTEGER NOT NULL
        ) WITHOUT ROWID""",
        "CREATE INDEX tokens_of_user ON tokens (user, created_s)",
        """CREATE TABLE quotas (
            tenant TEXT PRIMARY KEY, slots INTEGER, weight REAL NOT NULL, lends INTEGER NOT NULL
        ) WITHOUT ROWID""",
        """CREATE TABLE audit (
            seq INTEGER PRIMARY KEY AUTOINCREMENT, at_s REAL NOT NULL, user TEXT NOT NULL,
            action TEXT NOT NULL, target TEXT NOT NULL, outcome TEXT NOT NULL
        )""",
    ),
)

_EXPERIENCES = Migration(
    "what ended jobs teach",
    (
        """CREATE TABLE experiences (
            seq INTEGER PRIMARY KEY AUTOINCREMENT, job INTEGER NOT NULL UNIQUE REFERENCES jobs (number),
            body TEXT NOT NULL
        )""",
    ),
)

_VERDICTS = Migration(
    "what policies have decided about jobs for good",
    (
        "ALTER TABLE jobs ADD COLUMN verdict TEXT NOT NULL DEFAULT '' CHECK (verdict IN ('', 'downgrade', 'reject'))",
    ),
)

_EXITS = Migration(
    "how attempts ended, as kind, code and signal; how often grants changed",
    (
        'ALTER TABLE jobs ADD COLUMN "exit" TEXT',
        "ALTER TABLE jobs ADD COLUMN changes INTEGER NOT NULL DEFAULT 0",
        # What is known of jobs that were there before: how often they were started again.
        "UPDATE jobs SET changes = attempt - 1 WHERE attempt > 1",
    ),
)

_CODE = Migration("where the code of jobs comes from", ("ALTER TABLE jobs ADD COLUMN code_from TEXT",))

MIGRATIONS: tuple[Migration, ...] = (_JOBS_AND_LOG, _ACCOUNTS, _EXPERIENCES, _VERDICTS, _EXITS, _CODE)

NEWEST = len(MIGRATIONS)
"""The version this program reads and writes."""


def migrate(connection: sqlite3.Connection, files: Files) -> None:
    """Take every step that is missing, each wholly or not at all."""
    while (version := _version(connection)) < NEWEST:
        connection.execute("BEGIN IMMEDIATE")
        try:
            break_seal(files)
            # Another process may have come first while we waited for the lock.
            if _version(connection) == version:
                _take(connection, version + 1)
            reach("migration: before commit")
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        reach("migration: after commit")


def _take(connection: sqlite3.Connection, number: int) -> None:
    for statement in MIGRATIONS[number - 1].statements:
        connection.execute(statement)
        reach("migration: inside")
    # A control plane of the old version that still runs must not write into the new schema.
    connection.execute("UPDATE fence SET epoch = epoch + 1")
    connection.execute(f"PRAGMA user_version = {number:d}")
    connection.execute(f"PRAGMA application_id = {APPLICATION:d}")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
