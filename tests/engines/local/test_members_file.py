"""What an attempt's process writes of its workers is read as it was written, and nonsense as nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elastane.engines.contract import WorkerFacts
from elastane.engines.local.members_file import MemberFacts, Members, read_members, write_members
from elastane.engines.local.paths import MEMBERS
from elastane.train.coordinator.messages import Status, WorkerStatus
from elastane.train.coordinator.script_kind import JobKind

STATUS = Status(3, ("w1",), 2, 70, {"w1": WorkerStatus("member", 12, "n1", 70, "computing")})


def test_the_file_says_who_is_where_and_nothing_that_changes_with_every_step(tmp_path: Path) -> None:
    members = Members.of(JobKind.ADAPTIVE, "it calls et.init()", STATUS)
    write_members(tmp_path, members)
    assert json.loads((tmp_path / MEMBERS).read_text()) == {
        "kind": "adaptive",
        "why_kind": "it calls et.init()",
        "generation": 3,
        "members": ["w1"],
        "workers": {"w1": {"node": "n1", "pid": 12, "phase": "member"}},
    }
    found = read_members(tmp_path)
    assert found is not None
    assert (found.kind, found.why_kind) == ("adaptive", "it calls et.init()")
    assert found.facts() == [WorkerFacts("w1", "n1", 12, "member")]


def test_before_a_supervisor_serves_there_is_nobody(tmp_path: Path) -> None:
    assert read_members(tmp_path) is None
    assert Members.of(JobKind.COMMAND, "", None) == Members("command")


@pytest.mark.parametrize("workers", [7, ["w1"], {"w1": 7}, None])
def test_workers_without_sense_are_passed_over(tmp_path: Path, workers: object) -> None:
    (tmp_path / MEMBERS).write_text(json.dumps({"kind": "of a later version", "workers": workers}))
    assert read_members(tmp_path) == Members("")


def test_a_process_number_that_none_can_have_is_none(tmp_path: Path) -> None:
    worker = {"node": "n" * 200, "pid": -1, "phase": "member"}
    (tmp_path / MEMBERS).write_text(json.dumps({"workers": {"w1": worker}}))
    found = read_members(tmp_path)
    assert found is not None
    assert found.workers["w1"].pid is None
    assert len(found.workers["w1"].node) <= 100
    assert isinstance(found.workers["w1"], MemberFacts)
