"""How a job ended is read back as it was written, and as earlier versions wrote it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elastane.train.coordinator.membership_plan import Kind, Plan
from elastane.train.coordinator.plan_entries import (
    GenerationsStored,
    JobEnded,
    LoopsCounted,
    MemoryLimited,
    PlanMade,
    TargetSet,
    WorkerDone,
    WorkerGone,
    WorkerPlaced,
    WorkerSpawned,
    entries_in,
)
from elastane.train.coordinator.plan_log import PlanLog
from elastane.train.exit_cause import FINISHED, ExitCause, ExitKind, cancelled, given_up
from elastane.train.transport_choice import TransportKind


@pytest.mark.parametrize(
    "cause",
    [
        FINISHED,
        ExitCause.of_process(-9).told("worker w1 was lost"),
        ExitCause.of_process(1, out_of_memory=True),
        ExitCause(ExitKind.SUSPENDED, detail="suspended: it makes room"),
    ],
)
def test_an_end_is_read_as_it_was_written(tmp_path: Path, cause: ExitCause) -> None:
    log = PlanLog(tmp_path / "plans.jsonl")
    log.append(JobEnded.by(cause))
    (entry,) = log.entries()
    assert isinstance(entry, JobEnded)
    assert entry.exit_cause == cause
    log.close()


def test_an_end_that_an_earlier_version_wrote_keeps_its_outcome_and_its_words() -> None:
    entries = [
        {"type": "finish", "outcome": "finished", "cause": ""},
        {"type": "finish", "outcome": "stopped", "cause": "suspended: it makes room"},
        {"type": "finish", "outcome": "failed", "cause": "exit code 3"},
        {"type": "finish", "outcome": "failed", "cause": "x", "exit": {"kind": "of a later version"}},
    ]
    data = "\n".join(map(json.dumps, entries)).encode()
    assert [entry.exit_cause for entry in entries_in(data) if isinstance(entry, JobEnded)] == [
        FINISHED,
        cancelled("suspended: it makes room"),
        given_up("exit code 3"),
        given_up("x"),
    ]


LINES = {
    TargetSet(2): {"type": "target", "workers": 2},
    WorkerSpawned("w1"): {"type": "spawn", "worker": "w1"},
    WorkerPlaced("w1", "n1"): {"type": "placed", "worker": "w1", "node": "n1"},
    WorkerGone("w1"): {"type": "gone", "worker": "w1"},
    WorkerDone("w1"): {"type": "done", "worker": "w1"},
    GenerationsStored(7): {"type": "stored", "generation": 7},
    MemoryLimited(32): {"type": "limit", "samples": 32},
    LoopsCounted(): {"type": "counts"},
}


def test_entries_stand_in_the_file_as_they_always_did(tmp_path: Path) -> None:
    log, plan = PlanLog(tmp_path / "plans.jsonl"), Plan(1, Kind.START, ("w1",), source="w1")
    entries = [*LINES, PlanMade(plan)]
    for entry in entries:
        log.append(entry)
    lines = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert lines == [*LINES.values(), {"type": "plan", "plan": plan.to_json()}]
    assert list(log.entries()) == entries
    log.close()


def test_a_line_of_a_later_version_or_without_sense_hides_no_other() -> None:
    bad = [
        b'{"type":"later"}',
        b'{"type":"spawn"}',
        b'{"type":"plan","plan":5}',
        b"[]",
        b"7",
        b"[" * 200_000,
        b"\xff",
    ]
    assert list(entries_in(b"\n".join([*bad, b'{"type":"gone","worker":"w1","more":1}']))) == [WorkerGone("w1")]


def test_a_plan_tells_its_transport_and_one_of_an_earlier_version_means_gloo() -> None:
    plan = Plan(3, Kind.REBUILD, ("w1", "w2"), transport=TransportKind.NCCL_LIKE)
    values = plan.to_json()
    assert values["transport"] == "nccl"
    assert Plan.from_json(values) == plan
    del values["transport"]
    assert Plan.from_json(values).transport is TransportKind.GLOO_CPU
