"""Reports become rows and models; only what is stored is forgotten by the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastane.cluster import Grant
from elastane.engines.contract import Attempt, Cause, Over, Running, Told
from elastane.jobs.states import State
from elastane.service.control.containment import Containment
from elastane.service.control.ingest import ReportIngest
from elastane.service.control.wakeup import Wakeup
from elastane.testing.engines.fake_work import exit_for
from elastane.train.exit_cause import FINISHED
from service.control.parts import Parts, parts
from service.helpers import window

HELD = Grant.of([("n0", 1)])


def ingest(p: Parts, wakeup: Wakeup | None = None) -> ReportIngest:
    containment = Containment(p.ledger, p.driver, p.suspects)
    return ReportIngest(p.ledger, p.engine, p.cluster, containment, p.suspects, wakeup or Wakeup(), p.clock)


def over(attempt: Attempt, cause: Cause = Cause.FINISHED, number: int = 9) -> Over:
    return Over(attempt, number, exit_for(cause, "", 0), 1000.0)


def test_an_end_is_stored_before_the_engine_may_forget_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with parts(tmp_path) as p:
        job, forgotten = p.job(HELD), []

        def forget(attempt: Attempt) -> None:
            row = p.store.jobs.job(attempt.job)
            forgotten.append(row.state if row else None)

        monkeypatch.setattr(p.engine, "forget", forget)
        ingest(p).take([over(job.attempt)])
        assert forgotten == [State.SUCCEEDED]
        assert p.ledger.live == {}


def test_reports_of_an_earlier_attempt_mean_nothing(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        job, wakeup = p.job(HELD), Wakeup()
        ingest(p, wakeup).take([over(Attempt(job.id, 0)), Told(Attempt(job.id, 0), 5, window(1.0, 0.5))])
        assert job.row.state is State.RUNNING
        assert job.learned.training is None
        assert wakeup.trigger == ""


def test_training_is_stored_now_and_then_or_when_it_must(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        job, heard = p.job(HELD), ingest(p)

        def stored() -> int:
            row = p.store.jobs.job(job.id)
            return int(row.training.get("step", 0)) if row else -1

        heard.take([Told(job.attempt, 1, window(1.0, 0.1))])
        heard.store_training()
        assert stored() == 1
        heard.take([Told(job.attempt, 2, window(2.0, 0.2))])
        heard.store_training()
        assert stored() == 1  # a moment ago
        heard.store_training(force=True)
        assert stored() == 2


def test_a_moment_that_cannot_have_been_yet_is_now(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        job = p.job(HELD)
        ingest(p).take([Over(job.attempt, 9, FINISHED, float("nan"))])
        row = p.store.jobs.job(job.id)
        assert row is not None
        assert row.ended_s == p.clock.now_s


def test_a_node_that_goes_takes_its_workers_along_and_asks_for_a_decision(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        job, wakeup = p.job(Grant.of([("n0", 1), ("n1", 1)])), Wakeup()
        heard = ingest(p, wakeup)
        heard.look_at_nodes()
        assert wakeup.trigger == ""
        p.engine.lose_node("n0")
        heard.look_at_nodes()
        assert wakeup.trigger == "node"
        assert job.places == {"n1": 1}
        assert [e.body for e in p.store.log.events() if e.kind == "node"][-1] == {"node": "n0", "state": "lost"}


def test_a_start_is_timed_and_asks_for_a_decision(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        job, wakeup = p.job(HELD), Wakeup()
        p.clock.now_s += 7.0
        ingest(p, wakeup).take([Running(job.attempt, 1, {"n1": 1}, "adaptive", "", p.clock.now_s)])
        assert job.places == {"n1": 1}
        assert wakeup.trigger == "settled"
