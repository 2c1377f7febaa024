from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from elastane.jobs.states import State
from elastane.service.store import Store, StoreError
from service.store.samples import Clock, added, content, fill, opened, parts, save

Damage = Callable[[bytearray, random.Random], None]


def flip(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def cut(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def blank(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(0, len(data), 512)
    data[start : start + 512] = bytes(len(data[start : start + 512]))


@pytest.fixture
def filled(path: Path) -> Path:
    """A store with a little of everything, shut down cleanly."""
    with opened(path) as store:
        fill(store)
        store.backup()
    return path


def damaged(filled: Path, number: int, damage: Damage, *, sealed: bool) -> Path:
    """The same store in a folder of its own, with its database file damaged."""
    path = filled.parent.parent / f"damaged{number}" / filled.name
    shutil.copytree(filled.parent, path.parent)
    data = bytearray(path.read_bytes())
    damage(data, random.Random(number))
    path.write_bytes(data)
    if not sealed:
        path.with_name("elastane.db.seal").unlink()
    return path


CASES = [flip] * 110 + [cut] * 60 + [blank] * 30


def test_a_store_damaged_after_a_clean_shutdown_is_never_taken_for_a_good_one(filled: Path) -> None:
    with opened(filled) as store:
        right = content(store)
    original = filled.read_bytes()
    for number, damage in enumerate(CASES):
        path = damaged(filled, number, damage, sealed=True)
        before = parts(path)
        if before["elastane.db"] == original:
            continue  # blank over what was blank
        with pytest.raises(StoreError, match=r"elastane\.db\.good"):
            Store.open(path, Clock())
        assert parts(path) == before
        shutil.rmtree(path.parent)
    with opened(filled) as store:
        assert content(store) == right


def test_a_store_damaged_after_a_crash_is_read_or_refused_in_one_line(filled: Path) -> None:
    refused = []
    for number, damage in enumerate(CASES[::2]):
        path = damaged(filled, number, damage, sealed=False)
        before = parts(path)
        try:
            store = Store.open(path, Clock())
        except StoreError as error:
            refused.append(damage)
            said = str(error)
        else:
            read_everything(store)
            continue
        assert "\n" not in said
        assert parts(path) == before
    assert refused.count(cut) == CASES[::2].count(cut)
    assert refused.count(flip) > 0


def read_everything(store: Store) -> None:
    """Damage that hides in a row may show now, as damage."""
    for read in (
        store.jobs.active,
        store.jobs.ended,
        store.jobs.count_by_state,
        store.jobs.finished_service,
        store.log.events,
        store.log.decisions,
        store.accounts.users,
        store.accounts.tokens,
        store.accounts.quotas,
        store.accounts.audit_log,
        lambda: store.settings.get("policy"),
    ):
        with suppress(StoreError):
            read()
    store.close()


def test_looking_at_a_damaged_store_with_an_unfinished_log_changes_neither(filled: Path) -> None:
    """SQLite carries its log over into the file whenever it is closed, unless it is kept from it."""
    live = Store.open(filled, Clock())
    live.claim()
    added(live)
    path = filled.parent.parent / "crashed" / filled.name
    shutil.copytree(filled.parent, path.parent)
    live.close()
    data = bytearray(path.read_bytes())
    del data[len(data) // 2 :]
    path.write_bytes(data)
    before = parts(path)
    assert before["elastane.db-wal"]
    with pytest.raises(StoreError):
        Store.open(path, Clock())
    assert parts(path) == before


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"\0" * 4096, "is not a database"),
        (b"name: digits\n" * 100, "is not a database"),
        (b"SQLite format 3\0", "is cut short"),
        (b"SQLite format 3\0" + b"\xff" * 5000, "damaged"),
    ],
)
def test_a_file_that_is_no_database_is_named_and_left_alone(path: Path, data: bytes, says: str) -> None:
    path.parent.mkdir()
    path.write_bytes(data)
    with pytest.raises(StoreError, match=says) as caught:
        Store.open(path, Clock())
    assert str(path) in str(caught.value)
    assert "no good copy" in str(caught.value)
    assert parts(path) == {path.name: data}


def test_the_database_of_another_program_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as link:
        link.execute("CREATE TABLE bookmarks (a)")
    before = parts(path)
    with pytest.raises(StoreError, match="another program"):
        Store.open(path, Clock())
    assert parts(path) == before


def test_a_folder_in_the_place_of_the_file_is_one_clear_line(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(StoreError, match="is a directory"):
        Store.open(path, Clock())


def test_a_vanished_database_is_not_quietly_replaced_by_an_empty_one(filled: Path) -> None:
    filled.unlink()
    with pytest.raises(StoreError, match=r"is missing.*elastane up --restore"):
        Store.open(filled, Clock())
    assert Store.restore_good(filled) is None
    with opened(filled) as store:
        assert len(store.jobs.active()) == 10


def test_going_back_to_the_good_copy_keeps_the_bad_file(filled: Path) -> None:
    with opened(filled) as store:
        right = content(store)
    for number in (1, 2):
        bad = bytes(number) + filled.read_bytes()[number:]
        filled.write_bytes(bad)
        with pytest.raises(StoreError):
            Store.open(filled, Clock())
        kept = Store.restore_good(filled)
        assert kept == filled.with_name(f"elastane.db.bad{number}")
        assert kept.read_bytes() == bad
        with opened(filled) as store:
            assert content(store) == right
            store.claim()


def test_a_log_is_never_applied_to_the_good_copy(filled: Path) -> None:
    """The log of the bad file holds pages that do not fit the good one."""
    live = Store.open(filled, Clock())
    live.claim()
    right = content(live)
    for _ in range(20):
        added(live)
    path = filled.parent.parent / "crashed" / filled.name
    shutil.copytree(filled.parent, path.parent)
    live.close()
    kept = Store.restore_good(path)
    assert kept is not None
    assert kept.with_name(kept.name + "-wal").exists()
    with opened(path) as store:
        assert content(store) == right


def test_going_back_is_refused_without_a_good_copy_or_with_a_bad_one(filled: Path) -> None:
    good = filled.with_name("elastane.db.good")
    good.write_bytes(good.read_bytes()[:5000])
    before = parts(filled)
    with pytest.raises(StoreError, match="good"):
        Store.restore_good(filled)
    assert parts(filled) == before
    good.unlink()
    with pytest.raises(StoreError, match="no good copy"):
        Store.restore_good(filled)


def test_a_damaged_database_does_not_replace_the_good_copy(filled: Path) -> None:
    good = filled.with_name("elastane.db.good")
    store = Store.open(filled, Clock())
    before = good.read_bytes()
    data = bytearray(filled.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    filled.write_bytes(data)
    with pytest.raises(StoreError):
        store.backup()
    assert good.read_bytes() == before
    assert not list(filled.parent.glob("*.new*"))
    store._db.close()


def test_a_copy_made_while_a_transaction_is_under_way_has_what_was_committed(store: Store, path: Path) -> None:
    row = added(store)
    with store.transaction() as t:
        t.log.append_event("halfway", row.id)
        store.backup()
    store.close()
    Store.restore_good(path)
    with opened(path) as again:
        assert again.jobs.job(row.id) == row
        assert again.log.events() == []


def test_a_copy_is_due_after_its_time_and_when_the_clock_was_set_back(path: Path) -> None:
    now = [1000.0]
    store = Store.open(path, lambda: now[0])
    assert not store.backup_due(60)
    now[0] += 60
    assert store.backup_due(60)
    store.backup()
    assert not store.backup_due(60)
    now[0] -= 3600
    assert store.backup_due(60)
    store.close()


def test_only_an_owner_who_left_cleanly_seals_the_store(path: Path) -> None:
    seal = path.with_name("elastane.db.seal")
    with opened(path):
        pass
    assert not seal.exists()  # nobody claimed it
    with opened(path) as store:
        store.claim()
        row = added(store)
        with opened(path) as second:
            second.claim()
            save(second, row)
            store.close()
            assert not seal.exists()  # replaced
    assert seal.exists()
    with opened(path) as reader:
        reader.jobs.active()
        assert seal.exists()  # reading breaks nothing
        reader.claim()
        assert not seal.exists()
    assert seal.exists()


def test_a_row_that_makes_no_sense_is_reported_as_damage(store: Store) -> None:
    row = added(store)
    store._db._link.execute("UPDATE jobs SET state = 'dancing'")
    with pytest.raises(StoreError, match="cannot be read"):
        store.jobs.job(row.id)
    store._db._link.execute(f"UPDATE jobs SET state = '{State.QUEUED.value}', spec = '{{'")
    with pytest.raises(StoreError, match="cannot be read"):
        store.jobs.active()


def test_a_copy_that_cannot_be_made_does_not_keep_the_store_closed(filled: Path) -> None:
    filled.with_name("elastane.db.good.new").mkdir()
    with opened(filled) as store:
        assert "no good copy" in store.warnings[0]
        assert len(store.jobs.active()) == 10
