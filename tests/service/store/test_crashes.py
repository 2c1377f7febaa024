"""Whatever moment a process is killed at, the store holds every finished transaction and nothing of half a one."""

from __future__ import annotations

import os
import shutil
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastane.jobs.states import State
from elastane.service.store import Store, Transaction, failpoints
from elastane.service.store.files import Files
from elastane.service.store.integrity import examine
from elastane.service.store.migrations import NEWEST
from service.store.samples import GRANT, add, content, ended, fill, opened, parts

TRANSACTIONS = 4
"""In one life of a process."""


def still() -> float:
    """A clock that stands, so that two stores with the same transactions are equal."""
    return 7.0


def transact(t: Transaction, number: int) -> None:
    """The transaction with this number; what it does depends on it, and on what is there."""
    row = add(t, name=f"job-{number}", spec={"notes": "x" * (number * 997 % 5000)})
    t.jobs.remember_key("ann", f"key-{number}", row.id)
    t.log.append_event("submitted", row.id, {"number": number})
    active = t.jobs.active()
    t.jobs.save_job(replace(active[number % len(active)], state=State.RUNNING, attempt=number, grant=GRANT))
    if number % 3 == 0:
        t.jobs.save_job(ended(active[0], attempt=number))
    t.accounts.set_quota("default", number, 1.0 + number)
    t.accounts.add_audit("ann", "submit", row.id)
    t.log.add_decision(policy="fifo", view={"number": number}, plan={})
    t.log.prune(keep_events=4, keep_decisions=2)


def live(path: Path, first: int, acknowledge: Callable[[], None]) -> None:
    """One life: start, write, back up, leave."""
    store = Store.open(path, still)
    store.claim()
    for number in range(first, first + TRANSACTIONS):
        with store.transaction() as t:
            transact(t, number)
        acknowledge()
    store.backup()
    store.close()


def live_until(path: Path, first: int, crash_at: int) -> int:
    """One life in a process that ends at the given failpoint; how many transactions it saw finished."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            left = iter(range(crash_at))
            with failpoints.watched(lambda _: None if next(left, None) is not None else os._exit(9)):
                live(path, first, lambda: os.write(writer, b"."))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as acknowledged:
        finished = len(acknowledged.read())
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0, 9)
    return finished


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(crashes=st.lists(st.integers(0, 90), min_size=1, max_size=3))
def test_a_crash_leaves_every_finished_transaction_and_no_half_one(tmp_path: Path, crashes: list[int]) -> None:
    shutil.rmtree(tmp_path)
    path = tmp_path / "store" / "elastane.db"
    done = 0
    with opened(tmp_path / "model" / "elastane.db") as model:
        model._db.clock = still
        model.claim()
        for crash_at in crashes:
            finished = live_until(path, done, crash_at)
            check_good_copy(path)
            apply(model, done, done + finished)
            done += finished
            with opened(path) as store:
                found = content(store)
            if found != content(model):
                apply(model, done, done + 1)
                done += 1
            assert found == content(model)


def apply(model: Store, first: int, last: int) -> None:
    for number in range(first, last):
        with model.transaction() as t:
            transact(t, number)


def check_good_copy(path: Path) -> None:
    good = Files(path).good
    if good.exists():
        examine(Files(good), NEWEST)


def test_every_failpoint_is_reached_in_one_life(tmp_path: Path) -> None:
    """So that the test above means what it says."""
    reached: list[str] = []
    with failpoints.watched(reached.append):
        live(tmp_path / "elastane.db", 0, lambda: None)
        live(tmp_path / "elastane.db", TRANSACTIONS, lambda: None)
    per_commit = [f"transaction: {place}" for place in ("begun", "inside", "before commit", "after commit")]
    assert {
        *per_commit,
        "create: before link",
        "migration: inside",
        "copy: written",
        "file: before rename",
        "file: after rename",
        "seal: broken",
    } <= set(reached)
    assert reached.count("transaction: after commit") == 2 * TRANSACTIONS


@pytest.mark.parametrize("how", ["cut", "garbage"])
def test_a_commit_torn_on_its_way_to_the_disk_never_happened(path: Path, how: str) -> None:
    store = Store.open(path, still)
    fill(store)
    store._db.empty_wal()
    with store.transaction() as t:
        transact(t, 101)
    before, start = content(store), Files(path).wal.stat().st_size
    with store.transaction() as t:
        transact(t, 102)
    after, files = content(store), parts(path)
    store.close()
    log = files[Files(path).wal.name]
    for number, end in enumerate(range(start, len(log), max(1, (len(log) - start) // 25))):
        torn = path.parent.parent / f"torn{number}" / path.name
        torn.parent.mkdir()
        for name, data in files.items():
            (torn.parent / name).write_bytes(data)
        rest = b"" if how == "cut" else b"\x5a" * (len(log) - end)
        Files(torn).wal.write_bytes(log[:end] + rest)
        with opened(torn) as found:
            assert content(found) == before
    assert before != after
