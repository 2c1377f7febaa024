from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.cluster import Batch, Grant, Slice
from elastane.errors import ElastaneError
from elastane.jobs.states import TERMINAL, State
from elastane.service.protocol import Conflict, NotFound
from elastane.service.store import JobRow, Store
from elastane.service.store.grant_json import grant_from_json, grant_to_json
from service.store.samples import GRANT, add, added, ended, opened, save

FULL = {
    "state": State.RUNNING,
    "kind": "adaptive",
    "kind_reason": "it called elastane.train",
    "reason": "grew to 3",
    "held": True,
    "pinned_workers": 3,
    "pinned_node": "n1",
    "attempt": 2,
    "grant": GRANT,
    "ending": "suspend",
    "verdict": "downgrade",
    "exit": {"kind": "signal", "code": None, "signal": 9, "detail": "killed"},
    "changes": 3,
    "seen": 17,
    "code": -9,
    "restarts": 1,
    "failures": 4,
    "first_start_s": 1.25,
    "last_change_s": 2.5,
    "ended_s": 3.1,
    "as_of_s": 0.1 + 0.2,
    "service_gpu_s": 1e-9,
    "held_s": 1e12,
    "training": {"loss": 0.1, "metrics": {"acc": 1.0}, "nothing": None},
    "profile": {"points": [[1, 2.5], [2, 4.0]]},
}


def test_every_field_of_a_job_comes_back_as_it_was_stored(store: Store, path: Path) -> None:
    made = added(
        store, spec={"command": ["é", "\u202e"], "deep": {"a": [1, None, True]}}, code_from={"shared": "/é"}
    )
    changed = replace(made, **FULL)
    fixed = {"number", "name", "owner", "tenant", "spec", "directory", "code_from", "submitted_s"}
    assert {field.name for field in fields(JobRow)} == fixed | FULL.keys()  # a new field is not forgotten here
    save(store, changed)
    assert store.jobs.job(made.id) == changed
    store.close()
    with opened(path) as again:
        assert again.jobs.job(made.id) == changed


nodes = st.text(min_size=1, max_size=5)
slices = st.builds(
    Slice,
    node=nodes,
    workers=st.integers(0, 64),
    servers=st.integers(0, 3),
    devices=st.lists(st.integers(0, 7), max_size=3).map(tuple),
    share=st.floats(0.01, 1.0),
)
grants = st.builds(
    Grant,
    st.lists(slices, max_size=4).map(tuple),
    st.none() | st.builds(Batch, st.integers(1, 512), st.integers(0, 8)),
    st.none() | st.floats(0, 1e10),
)


@given(grants)
def test_a_grant_survives_its_way_through_json(grant: Grant) -> None:
    assert grant_from_json(grant_to_json(grant)) == grant


def test_ids_count_up_and_are_never_given_twice(store: Store) -> None:
    assert [added(store).id for _ in range(3)] == ["j1", "j2", "j3"]
    with store._db._link as raw:  # not possible through the store; were it ever, the number must not come back
        raw.execute("DELETE FROM jobs WHERE number = 3")
    assert added(store).id == "j4"


NO_IDS = ["J1", "1", "j01", "j1 ", " j1", "j1\n", "j1\0", "j1/", "j1%00", "j", "", "j0", "j-1", "j1.0"]


@pytest.mark.parametrize("wrong", [*NO_IDS, "j" + "9" * 30, "ｊ1", "j１", "\ud800"])
def test_a_job_is_found_by_its_exact_id_only(store: Store, wrong: str) -> None:
    added(store)
    assert store.jobs.job("j1") is not None
    assert store.jobs.job(wrong) is None
    assert store.log.events(job=wrong) == []


@pytest.mark.parametrize("state", sorted(TERMINAL, key=lambda state: state.value))
def test_a_job_that_has_ended_stays_as_it_ended(store: Store, state: State) -> None:
    row = ended(added(store), state)
    save(store, row)
    for change in (
        {"state": State.RUNNING},
        {"state": State.FAILED if state is not State.FAILED else State.SUCCEEDED},
        {"reason": "another"},
        {"code": 1},
        {"ended_s": 1.0},
        {"attempt": 1},
        {"grant": GRANT},
    ):
        with pytest.raises(Conflict, match="has ended"):
            save(store, replace(row, **change))
        assert store.jobs.job(row.id) == row


def test_late_facts_about_the_training_of_an_ended_job_are_stored(store: Store) -> None:
    row = ended(added(store))
    save(store, row)
    late = replace(row, training={"step": 9}, profile={"a": 1})
    save(store, late)
    assert store.jobs.job(row.id) == late


def test_attempts_only_go_up(store: Store) -> None:
    row = replace(added(store), attempt=2)
    save(store, row)
    with pytest.raises(Conflict, match="attempt 2"):
        save(store, replace(row, attempt=1))
    assert store.jobs.job(row.id) == row


@pytest.mark.parametrize(
    "change",
    [
        *(
            {"owner": "eve"},
            {"tenant": "b"},
            {"spec": {}},
            {"directory": "/"},
            {"code_from": {}},
            {"name": "x"},
        ),
        {"submitted_s": 0.0},
    ],
)
def test_what_a_job_is_never_changes(store: Store, change: dict[str, object]) -> None:
    row = added(store)
    with pytest.raises(Conflict, match="another job"):
        save(store, replace(row, **change))  # type: ignore[arg-type]
    assert store.jobs.job(row.id) == row


def test_a_job_nobody_added_cannot_be_saved(store: Store) -> None:
    with pytest.raises(NotFound, match="j7"):
        save(store, replace(added(store), number=7))


def test_lists_are_in_the_order_people_expect(store: Store) -> None:
    rows = [added(store, owner=owner, tenant=tenant) for owner, tenant in ["ax", "bx", "ay", "by", "ax", "bx"]]
    for number, end_s in [(0, 30.0), (1, 10.0), (3, 20.0)]:
        save(store, ended(rows[number], ended_s=end_s))

    def ids(found: list[JobRow]) -> list[str]:
        return [row.id for row in found]

    assert ids(store.jobs.active()) == ["j3", "j5", "j6"]
    assert ids(store.jobs.ended()) == ["j1", "j4", "j2"]
    assert ids(store.jobs.listed("all")) == ["j3", "j5", "j6", "j1", "j4", "j2"]
    assert ids(store.jobs.listed("all", limit=4)) == ["j3", "j5", "j6", "j1"]
    assert ids(store.jobs.listed("active", owner="a", limit=1)) == ["j3"]
    assert ids(store.jobs.listed("ended", owner="b")) == ["j4", "j2"]
    assert ids(store.jobs.listed("all", tenant="x")) == ["j5", "j6", "j1", "j2"]
    assert ids(store.jobs.listed("all", owner="b", tenant="y")) == ["j4"]
    assert ids(store.jobs.listed("all", owner="A")) == []
    assert ids(store.jobs.ended(limit=-1)) == []
    assert store.jobs.count_by_state() == {State.SUBMITTED: 3, State.SUCCEEDED: 3}


def test_service_of_jobs_that_ran_to_their_end_the_latest_last(store: Store) -> None:
    rows = [added(store) for _ in range(4)]
    for number, end_s in enumerate([5.0, 1.0, 3.0, 4.0]):
        save(store, ended(rows[number], State.FAILED if number == 1 else State.SUCCEEDED, ended_s=end_s))
    assert store.jobs.finished_service() == (30.0, 40.0, 10.0)
    assert store.jobs.finished_service(2) == (40.0, 10.0)


def test_a_request_key_stands_for_one_job_of_one_user(store: Store) -> None:
    first, second = added(store), added(store)
    with store.transaction() as t:
        t.jobs.remember_key("ann", "k", first.id)
        t.jobs.remember_key("ann", "k", first.id)
        t.jobs.remember_key("bob", "k", second.id)
    with pytest.raises(Conflict, match="j1 already"), store.transaction() as t:
        t.jobs.remember_key("ann", "k", second.id)
    with pytest.raises(NotFound), store.transaction() as t:
        t.jobs.remember_key("ann", "other", "j99")
    assert store.jobs.job_of_key("ann", "k") == first.id
    assert store.jobs.job_of_key("bob", "k") == second.id
    assert store.jobs.job_of_key("Ann", "k") is None
    assert store.jobs.job_of_key("ann", "K") is None


def test_a_job_and_its_key_are_stored_together_or_not_at_all(store: Store) -> None:
    with store.transaction() as t:
        t.jobs.remember_key("ann", "k", add(t).id)
    with pytest.raises(Conflict), store.transaction() as t:
        t.jobs.remember_key("ann", "k", add(t).id)
    assert [row.id for row in store.jobs.active()] == ["j1"]


@pytest.mark.parametrize("field", ["name", "owner", "directory"])
def test_text_that_is_no_unicode_is_refused_in_one_line(store: Store, field: str) -> None:
    with pytest.raises(ElastaneError, match="not valid Unicode"):
        added(store, **{field: "a\udc80"})
    assert store.jobs.active() == []


@pytest.mark.parametrize(
    ("call", "index"),
    [
        ("SELECT * FROM jobs WHERE terminal = 0 ORDER BY number", "jobs_unfinished"),
        ("SELECT * FROM jobs WHERE terminal = 1 ORDER BY ended_s DESC, number DESC LIMIT 5", "jobs_ended"),
        ("SELECT * FROM jobs WHERE terminal = 1 AND owner = 'a' ORDER BY ended_s DESC, number DESC", "jobs_of_owner"),
        ("SELECT state, count(*) FROM jobs GROUP BY state", "jobs_by_state"),
    ],
)  # fmt: skip
def test_ended_jobs_do_not_slow_the_reads_of_every_round(store: Store, call: str, index: str) -> None:
    plan = store._db._link.execute("EXPLAIN QUERY PLAN " + call).fetchall()
    assert index in plan[0][3]
    assert not any("TEMP B-TREE" in step[3] for step in plan)


def test_active_reads_unfinished_rows_only(store: Store) -> None:
    statements: list[str] = []
    store._db._link.set_trace_callback(statements.append)
    store.jobs.active()
    plan = store._db._link.execute("EXPLAIN QUERY PLAN " + statements[0]).fetchall()
    assert "jobs_unfinished (terminal=?)" in plan[0][3]
