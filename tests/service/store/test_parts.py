"""Each part of a store is complete when it is made, and needs no other."""

from __future__ import annotations

from elastane.service.store import Store
from elastane.service.store.event_log import LogReads, LogWrites
from elastane.service.store.settings import SettingReads, SettingWrites


def test_a_part_works_alone_with_a_database(store: Store) -> None:
    log, settings = LogWrites(store._db), SettingWrites(store._db)
    with store.transaction():
        log.append_event("tick", None, {"n": 1})
        settings.put("policy", "fifo")
    assert [event.kind for event in LogReads(store._db).events()] == ["tick"]
    assert SettingReads(store._db).get("policy") == "fifo"


def test_a_transaction_writes_to_the_parts_that_a_store_reads(store: Store) -> None:
    with store.transaction() as t:
        assert vars(t).keys() == {name for name, part in vars(store).items() if hasattr(t, name)}
