"""What is not stored has not happened, and who has ended is not held."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from elastane.cluster import Grant
from elastane.jobs.states import Event, State
from elastane.service.control.state_after_end import Outcome
from service.control.parts import parts


def test_a_change_is_stored_with_its_step_in_the_event_log(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        job = p.job()
        row = replace(job.moved(Event.START, 1001.0), grant=Grant.of([("n0", 1)]), attempt=1)
        with p.ledger.changing() as t:
            p.ledger.follow(t, job, Outcome(row, ((Event.START, "1 on n0"),), retry_in_s=5.0))
        stored = p.store.jobs.job(job.id)
        assert stored is not None
        assert stored.state is job.row.state is State.STARTING
        assert p.causes(job) == ["start"]
        assert job.retry_s == p.clock.now_s + 5.0


def test_what_fails_has_not_happened_in_memory_either(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        job, other = p.job(), p.job()
        before = job.row, other.row

        def fails() -> None:
            with p.ledger.changing() as t:
                p.ledger.follow(t, job, Outcome(job.moved(Event.CANCEL, 1001.0), ((Event.CANCEL, ""),)))
                other.places = {"n0": 1}
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fails()
        assert (job.row, other.row) == before
        assert other.places == {}
        assert p.causes(job) == []


def test_who_has_ended_is_dropped_and_who_is_held_again_is_no_longer_left_out(tmp_path: Path) -> None:
    with parts(tmp_path) as p:
        ended, kept = p.job(), p.job()
        p.ledger.leave_out(kept.row, "it cannot be read")
        assert "can be cancelled" in p.ledger.unread[kept.id]
        p.ledger.add(kept)
        with p.ledger.changing() as t:
            p.ledger.follow(t, ended, Outcome(replace(ended.moved(Event.CANCEL, 1001.0), ended_s=1001.0)))
        p.ledger.drop_ended()
        assert list(p.ledger.live) == [kept.id]
        assert p.ledger.unread == {}
