from __future__ import annotations

import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from elastane.jobs.states import State
from elastane.service.store import StaleControlPlane, Store, StoreError, failpoints
from service.store.samples import Clock, add, added, content, fill, opened, save


class Stop(BaseException):
    """Not an Exception, like an interrupt."""


def test_an_exception_undoes_everything_and_the_next_transaction_works(store: Store) -> None:
    def fail(error: type[BaseException]) -> None:
        with store.transaction() as t:
            row = add(t)
            t.log.append_event("submitted", row.id)
            assert store.jobs.job(row.id) == row  # a transaction sees its own changes
            raise error

    before = content(store)
    for error in (ValueError, Stop):
        with pytest.raises(error):
            fail(error)
        assert content(store) == before
    assert added(store).id == "j1"


def test_transactions_do_not_nest(store: Store) -> None:
    with store.transaction() as t:
        row = add(t)
        with pytest.raises(RuntimeError, match="nest"), store.transaction():
            pass
        with pytest.raises(RuntimeError):
            store.claim()
    assert store.jobs.job(row.id) == row


def test_nothing_is_written_outside_of_a_transaction(store: Store) -> None:
    with store.transaction() as t:
        row = add(t)
    with pytest.raises(RuntimeError, match="transaction"):
        t.jobs.save_job(replace(row, state=State.QUEUED))
    assert store.jobs.job(row.id) == row


def test_nothing_is_written_before_the_store_is_claimed(path: Path) -> None:
    with opened(path) as store, pytest.raises(RuntimeError, match="claim"), store.transaction():
        pass


@pytest.mark.parametrize("point", ["begun", "inside", "before commit", "after commit"])
def test_a_failure_at_any_point_leaves_the_state_before_or_after(store: Store, point: str) -> None:
    row = added(store)
    changed = replace(row, state=State.QUEUED)

    def fail(name: str) -> None:
        if name == f"transaction: {point}":
            raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input"), failpoints.watched(fail):
        save(store, changed)
    assert store.jobs.job(row.id) == (changed if point == "after commit" else row)
    save(store, replace(changed, reason="next"))


def test_a_replaced_control_plane_writes_nothing(store: Store, path: Path) -> None:
    row = added(store)
    with opened(path) as second:
        epoch = second.claim()
        for _ in range(3):
            with pytest.raises(StaleControlPlane, match="taken over"), store.transaction() as t:
                t.jobs.save_job(replace(row, state=State.FAILED))
        save(second, replace(row, state=State.QUEUED))
        store.close()
        save(second, replace(row, state=State.STARTING))
    with opened(path) as third:
        assert third.claim() == epoch + 1
        found = third.jobs.job(row.id)
        assert found is not None
        assert found.state is State.STARTING


def test_a_control_plane_that_claims_again_may_write_again(store: Store, path: Path) -> None:
    with opened(path) as second:
        second.claim()
        store.claim()
        added(store)
        with pytest.raises(StaleControlPlane):
            added(second)


def test_a_second_writer_waits_no_longer_than_it_must_and_says_so(store: Store, path: Path) -> None:
    with opened(path) as second, store.transaction() as t:
        add(t)
        second._db._link.execute("PRAGMA busy_timeout=1")
        with pytest.raises(StoreError, match="in use"):
            second.claim()


def add_large(store: Store) -> None:
    with store.transaction() as t:
        for _ in range(200):
            add(t, spec={"notes": "x" * 1000})


def test_a_full_disk_is_one_line_and_the_last_state_stays(store: Store, path: Path) -> None:
    fill(store)
    before = content(store)
    pages = store._db._link.execute("PRAGMA page_count").fetchone()[0]
    store._db._link.execute(f"PRAGMA max_page_count={pages + 5}")
    with pytest.raises(StoreError, match="no space left") as caught:
        add_large(store)
    assert "\n" not in str(caught.value)
    assert content(store) == before
    with store.transaction() as t:
        t.settings.put("still", "works")
    store.close()
    with opened(path) as again:
        assert again.settings.get("still") == "works"
        assert {**content(again), "settings": []} == {**before, "settings": []}


def test_a_disk_that_fails_at_the_commit_is_one_line_too(store: Store) -> None:
    row = added(store)
    with store.transaction() as t:
        t.jobs.save_job(replace(row, reason="lost"))
        # What SQLite does by itself when a commit cannot be written.
        store._db._link.execute("ROLLBACK")
        with pytest.raises(StoreError):
            store._db.commit()
        store._db._link.execute("BEGIN IMMEDIATE")
    assert store.jobs.job(row.id) == row


def test_files_are_for_their_owner_only(path: Path) -> None:
    path.parent.parent.mkdir(exist_ok=True)
    with opened(path) as store:
        store.claim()
        added(store)
        store.backup()
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    modes |= {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert {"elastane.db", "elastane.db-wal", "elastane.db.good", "elastane.db.seal"} <= modes.keys()
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_settings_that_make_a_commit_durable_are_on(store: Store) -> None:
    def pragma(name: str) -> object:
        return store._db._link.execute(f"PRAGMA {name}").fetchone()[0]

    assert (pragma("journal_mode"), pragma("synchronous"), pragma("foreign_keys")) == ("wal", 2, 1)
    assert pragma("busy_timeout") == 5000


def test_closing_twice_or_within_a_transaction_is_harmless(path: Path) -> None:
    store = Store.open(path, Clock())
    store.claim()

    def close_inside() -> None:
        with store.transaction() as t:
            add(t)
            store.close()

    with pytest.raises(RuntimeError, match="closed within"):
        close_inside()
    store.close()
    with opened(path) as again:
        assert again.jobs.active() == []


def test_the_store_needs_none_of_the_heavy_libraries() -> None:
    check = (
        "import sys, elastane.service.store; print({'torch', 'numpy', 'plotly', 'scipy'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
