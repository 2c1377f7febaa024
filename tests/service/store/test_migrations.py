from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from elastane.cluster import Grant
from elastane.jobs.states import State
from elastane.service.store import Store, StoreError, failpoints
from elastane.service.store.migrations import NEWEST
from elastane.service.store.tables import ALL
from service.store.samples import Clock, added, opened, parts

VERSION_1 = (Path(__file__).parent / "version_1.sql").read_text(encoding="utf-8")


def make_version_1(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as link:
        link.execute("PRAGMA journal_mode=WAL")
        link.executescript(VERSION_1)


def check_old_content(store: Store) -> None:
    first, second = store.jobs.job("j1"), store.jobs.job("j2")
    assert first is not None
    assert second is not None
    assert (first.state, first.training, first.ended_s) == (State.SUCCEEDED, {"step": 7}, 12.0)
    assert (second.state, second.grant, second.attempt) == (State.RUNNING, Grant.of([("n1", 2)]), 2)
    assert store.jobs.job_of_key("ann", "k") == "j1"
    assert [event.kind for event in store.log.events()] == ["submitted"]


def test_a_store_of_version_1_is_brought_up_to_date_with_all_it_holds(path: Path) -> None:
    make_version_1(path)
    with opened(path) as store:
        check_old_content(store)
        assert store.claim() > 5
        assert added(store).id == "j3"
        with store.transaction() as t:
            t.accounts.add_user("ann", "admin")
    with opened(path) as again:
        assert again.accounts.user("ann") is not None


def test_the_good_copy_taken_before_a_migration_can_be_gone_back_to(path: Path) -> None:
    make_version_1(path)
    Store.open(path, Clock()).close()
    with closing(sqlite3.connect(path.with_name("elastane.db.good"))) as link:
        assert link.execute("PRAGMA user_version").fetchone() == (1,)
    Store.restore_good(path)
    with opened(path) as store:
        check_old_content(store)


class Crash(BaseException):
    pass


@pytest.mark.parametrize("point", ["inside", "before commit", "after commit"])
def test_a_migration_that_is_interrupted_is_made_up_for_at_the_next_start(path: Path, point: str) -> None:
    make_version_1(path)

    def crash(name: str) -> None:
        if name == f"migration: {point}":
            raise Crash

    with pytest.raises(Crash), failpoints.watched(crash):
        Store.open(path, Clock())
    with closing(sqlite3.connect(path)) as link:
        assert link.execute("PRAGMA user_version").fetchone() == (2 if point == "after commit" else 1,)
    with opened(path) as store:
        check_old_content(store)
        assert store.accounts.users() == []


def test_a_store_of_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    Store.open(path, Clock()).close()
    with closing(sqlite3.connect(path)) as link:
        link.execute(f"PRAGMA user_version = {NEWEST + 1}")
        link.execute("CREATE TABLE from_the_future (a)")
        link.commit()
    before = parts(path)
    with pytest.raises(StoreError, match=f"newer Elastane .store version {NEWEST + 1}"):
        Store.open(path, Clock())
    assert parts(path) == before


def test_the_tables_of_the_queries_are_those_the_migrations_make(store: Store) -> None:
    made = sa.inspect(store._db._connection)
    assert set(made.get_table_names()) - {"sqlite_sequence"} == {table.name for table in ALL}
    for table in ALL:
        found = {column["name"]: column["nullable"] for column in made.get_columns(table.name)}
        assert list(found) == [column.name for column in table.columns]
        expected = {column.name: column.nullable for column in table.columns if not column.primary_key}
        assert {name: found[name] for name in expected} == expected
