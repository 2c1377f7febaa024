"""A job ends once, when it is asked to, has failed, or all who trained have come to the end."""

from __future__ import annotations

from elastane.train.coordinator.actions import Finish, Kill, Record, Send
from elastane.train.coordinator.job_end import JobEnd
from elastane.train.coordinator.messages import Over, StopTraining
from elastane.train.coordinator.outbox import Outbox
from elastane.train.coordinator.plan_entries import JobEnded, WorkerGone
from elastane.train.coordinator.worker_registry import WorkerRegistry
from elastane.train.coordinator.worker_table import Phase, Worker
from elastane.train.exit_cause import FINISHED, cancelled, given_up


def job(**phases: Phase) -> tuple[JobEnd, WorkerRegistry, Outbox]:
    """The end of a job with these workers; all but newcomers have trained."""
    workers = {
        name: Worker(name, phase, entered=0 if phase in (Phase.WARMING, Phase.READY) else 1)
        for name, phase in phases.items()
    }
    registry, out = WorkerRegistry(workers, len(workers)), Outbox()
    return JobEnd(registry, out, None), registry, out


def test_only_the_first_failure_is_the_outcome() -> None:
    end, _, out = job(w1=Phase.MEMBER)
    end.fail(given_up("first"))
    end.fail(given_up("second"))
    assert end.outcome == Finish(given_up("first"))
    assert out.take() == [
        Record(JobEnded.by(given_up("first"))),
        Send("w1", StopTraining("first", failed=True)),
        Finish(given_up("first")),
    ]
    assert out.take() == []


def test_whoever_is_asked_to_stop_before_it_trained_is_ended_at_once() -> None:
    end, _, out = job(w1=Phase.MEMBER, w2=Phase.READY)
    end.stop(cancelled("enough"))
    assert out.take() == [
        Send("w1", StopTraining("enough")),
        Record(WorkerGone("w2")),
        Kill("w2", "enough"),
    ]
    assert end.stopping
    assert not end.reached(recovers=False)


def test_members_that_are_all_done_are_let_go_once_and_the_job_ends_with_the_last_of_them() -> None:
    end, registry, out = job(w1=Phase.MEMBER, w2=Phase.MEMBER, w3=Phase.WARMING)
    for name in ("w1", "w2"):
        registry[name].done = True
    assert end.reached(recovers=False)
    assert out.take() == [Send("w1", Over()), Send("w2", Over()), Kill("w3", "training has ended")]
    end.reached(recovers=False)
    assert out.take() == []
    for name in ("w1", "w2"):
        registry[name].phase = Phase.GONE
    end.reached(recovers=False)
    assert end.outcome == Finish(FINISHED)


def test_the_end_of_some_is_not_reached_while_others_recover() -> None:
    end, registry, _ = job(w1=Phase.MEMBER, w2=Phase.MEMBER)
    registry["w1"].done = True
    assert not end.reached(recovers=True)
    assert end.reached(recovers=False)
