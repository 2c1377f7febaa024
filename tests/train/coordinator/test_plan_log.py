"""How a job ended is read back as it was written, and as earlier versions wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastane.train.coordinator.actions import Finish
from elastane.train.coordinator.membership_plan import Kind, Plan
from elastane.train.coordinator.plan_log import PlanLog, finish_entry, finish_of
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
    log.append(finish_entry(Finish(cause)))
    (entry,) = log.entries()
    assert finish_of(entry) == Finish(cause)
    log.close()


def test_an_end_that_an_earlier_version_wrote_keeps_its_outcome_and_its_words() -> None:
    entries = [
        {"type": "finish", "outcome": "finished", "cause": ""},
        {"type": "finish", "outcome": "stopped", "cause": "suspended: it makes room"},
        {"type": "finish", "outcome": "failed", "cause": "exit code 3"},
        {"type": "finish", "outcome": "failed", "cause": "x", "exit": {"kind": "of a later version"}},
    ]
    ends = [Finish(FINISHED), Finish(cancelled("suspended: it makes room"))]
    assert [finish_of(entry) for entry in entries] == [
        *ends,
        Finish(given_up("exit code 3")),
        Finish(given_up("x")),
    ]


def test_a_plan_tells_its_transport_and_one_of_an_earlier_version_means_gloo() -> None:
    plan = Plan(3, Kind.REBUILD, ("w1", "w2"), transport=TransportKind.NCCL_LIKE)
    values = plan.to_json()
    assert values["transport"] == "nccl"
    assert Plan.from_json(values) == plan
    del values["transport"]
    assert Plan.from_json(values).transport is TransportKind.GLOO_CPU
