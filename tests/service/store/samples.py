"""Stores and rows for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from elastane.cluster import Batch, Grant, Slice
from elastane.jobs.states import State
from elastane.service.store import JobRow, Store, Transaction
from elastane.service.store.tables import ALL

GRANT = Grant((Slice("n1", 2, devices=(0, 1)), Slice("n2", 1, servers=1, share=0.5)), Batch(32, 1), 99.5)


@dataclass
class Clock:
    """Goes on by a second with every look."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        self.now_s += 1.0
        return self.now_s


def add(t: Transaction, **changes: Any) -> JobRow:
    plain: dict[str, Any] = {
        "name": "digits",
        "owner": "ann",
        "tenant": "default",
        "spec": {"command": ["python", "train.py"]},
        "directory": "/home/ann",
        "kind": "auto",
    }
    return t.jobs.add_job(**{**plain, **changes})


def added(store: Store, **changes: Any) -> JobRow:
    with store.transaction() as t:
        return add(t, **changes)


def save(store: Store, row: JobRow) -> None:
    with store.transaction() as t:
        t.jobs.save_job(row)


@contextmanager
def opened(path: Path) -> Iterator[Store]:
    store = Store.open(path, Clock())
    try:
        yield store
    finally:
        store.close()


def content(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in it but the epoch, which changes with every start."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for table in ALL:
        if table.name != "fence":
            query = sa.select(table).order_by(*table.primary_key)
            found[table.name] = store._db.all(lambda row: tuple(row.values()), query)
    return found


def fill(store: Store) -> None:
    """A little of everything."""
    store.claim()
    with store.transaction() as t:
        for number in range(30):
            row = add(t, name=f"job-{number}", spec={"command": ["python", f"{number}.py"], "notes": "x" * 200})
            t.log.append_event("submitted", row.id, {"by": "ann"})
            t.jobs.remember_key("ann", f"key-{number}", row.id)
            if number % 3:
                t.jobs.save_job(ended(row))
        t.accounts.add_user("ann", "admin")
        t.accounts.add_token("ann", label="laptop")
        t.accounts.set_quota("default", 4, 2.0, False)
        t.accounts.add_audit("ann", "submit", "j1", "ok")
        t.log.add_decision(policy="fifo", view={"jobs": list(range(50))}, plan={"order": ["j1"]})
        t.settings.put("policy", "fifo")


def ended(row: JobRow, state: State = State.SUCCEEDED, **changes: Any) -> JobRow:
    return replace(
        row, **{"state": state, "ended_s": 2000.0 + row.number, "service_gpu_s": 10.0 * row.number, **changes}
    )


def parts(path: Path) -> dict[str, bytes]:
    """The database and what belongs to it, byte for byte; SQLite's index of the wal is no content."""
    return {file.name: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm")}
