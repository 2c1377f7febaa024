from __future__ import annotations

from pathlib import Path

import pytest

from elastane.errors import ElastaneError
from elastane.service.protocol import NotFound
from elastane.service.store import Store
from service.store.samples import added, opened


def log_events(store: Store, number: int) -> list[int]:
    with store.transaction() as t:
        return [t.log.append_event("tick", None, {"n": n}) for n in range(number)]


def test_events_are_read_in_order_after_any_of_them(store: Store) -> None:
    assert store.log.last_event_seq() == 0
    row = added(store)
    with store.transaction() as t:
        seqs = [
            t.log.append_event("submitted", row.id, {"by": "ann"}),
            t.log.append_event("node up"),
            t.log.append_event("started", row.id),
        ]
    assert seqs == [1, 2, 3]
    assert store.log.last_event_seq() == 3
    assert [event.kind for event in store.log.events()] == ["submitted", "node up", "started"]
    assert [event.seq for event in store.log.events(after=1, limit=1)] == [2]
    assert [event.seq for event in store.log.events(job=row.id)] == [1, 3]
    first = store.log.events()[0]
    assert (first.job, first.body) == (row.id, {"by": "ann"})
    assert store.log.events(after=3) == []


def test_an_event_of_no_known_job_is_refused(store: Store) -> None:
    with pytest.raises(NotFound), store.transaction() as t:
        t.log.append_event("started", "J1")


def test_places_in_the_log_are_never_given_twice(store: Store, path: Path) -> None:
    log_events(store, 5)
    with store.transaction() as t:
        assert t.log.prune(keep_events=0, keep_decisions=0) == 5
    assert store.log.events() == []
    assert store.log.last_event_seq() == 5
    assert log_events(store, 1) == [6]
    store.close()
    with opened(path) as again:
        assert again.log.last_event_seq() == 6


def test_pruning_keeps_the_latest_and_takes_no_more_than_it_may(store: Store) -> None:
    log_events(store, 30)
    with store.transaction() as t:
        for _ in range(20):
            t.log.add_decision(policy="fifo", view={}, plan={})
    with store.transaction() as t:
        assert t.log.prune(keep_events=10, keep_decisions=15, at_most=8) == 8 + 5
        assert [event.seq for event in t.log.events()] == list(range(9, 31))
        assert t.log.prune(keep_events=10, keep_decisions=15) == 12
        assert t.log.prune(keep_events=10, keep_decisions=15) == 0
    assert [event.seq for event in store.log.events()] == list(range(21, 31))
    assert [decision.seq for decision in store.log.decisions()] == list(range(6, 21))


def test_a_decision_comes_back_whole(store: Store) -> None:
    view = {"now_s": 0.1, "jobs": [{"id": "j1", "name": "é"}] * 300}
    with store.transaction() as t:
        t.log.add_decision(policy="elastane", view=view, plan={"grants": {}}, took_ms=2.5, problem="timed out")
    (found,) = store.log.decisions()
    assert (found.seq, found.policy, found.took_ms, found.problem) == (1, "elastane", 2.5, "timed out")
    assert (found.view, found.plan) == (view, {"grants": {}})
    assert store.log.decisions(after=1) == []
    assert store.log.last_decision_seq() == 1


@pytest.mark.parametrize("value", ["fifo", None, 0, False, [1, {"a": None}], {"b": 0.1}])
def test_settings_hold_any_json_value_and_the_last_one_counts(store: Store, value: object) -> None:
    with store.transaction() as t:
        t.settings.put("policy", "before")
        t.settings.put("policy", value)
    assert store.settings.get("policy") == value
    assert store.settings.get("Policy") is None


def test_a_number_beyond_all_bounds_is_a_plain_mistake(store: Store) -> None:
    with pytest.raises(ElastaneError, match="too large"):
        store.log.events(after=2**70)
