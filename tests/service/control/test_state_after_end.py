"""What an engine's words mean for a job: every cause, in every state it can be said in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from elastane.cluster import Grant
from elastane.engines.contract import Attempt, Cause, Over, Running
from elastane.jobs.states import EDGES, HOLDING, Event, State
from elastane.service.control.active_job import LiveJob
from elastane.service.control.state_after_end import (
    BACKOFF_S,
    LONGEST_BACKOFF_S,
    MOST_LOSSES,
    after_end,
    after_running,
    overlap,
)
from elastane.service.store import JobRow
from elastane.testing.engines.fake_work import exit_for

GRANT = Grant.of([("n0", 2)])
ENDINGS = sorted(HOLDING - {State.LOST}, key=lambda state: state.value)


def job(state: State = State.RUNNING, retries: int = 0, **changes: Any) -> LiveJob:
    row = JobRow(
        number=7,
        name="digits",
        owner="ann",
        tenant="default",
        spec={"command": ["train"], "retries": retries},
        directory="/tmp",
        submitted_s=0.0,
        state=state,
        kind="adaptive",
        attempt=1,
        grant=GRANT,
        as_of_s=100.0,
    )
    return LiveJob.of(replace(row, **changes))


def over(cause: Cause, at_s: float = 110.0, code: int | None = 1) -> Over:
    return Over(Attempt("j7", 1), 9, exit_for(cause, "exit code 1", code), at_s)


def running(workers: dict[str, int], at_s: float = 110.0, kind: str = "adaptive", why: str = "") -> Running:
    return Running(Attempt("j7", 1), 3, workers, kind, why, at_s)


@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("state", ENDINGS)
def test_every_end_frees_the_grant_and_leads_somewhere(state: State, cause: Cause) -> None:
    outcome = after_end(job(state, retries=1), over(cause))
    row = outcome.row
    assert row.grant is None
    assert row.ending == ""
    assert row.state not in HOLDING
    assert row.service_gpu_s == 20.0
    if state is State.STOPPING:
        assert row.state is (State.SUCCEEDED if cause is Cause.FINISHED else State.CANCELLED)
    assert row.terminal == (row.ended_s is not None)
    now = state
    for event, _ in outcome.steps:
        now = EDGES[now][event]
    assert now is row.state


@pytest.mark.parametrize("state", [State.STARTING, State.RUNNING, State.RESIZING, State.SUSPENDING])
def test_a_failure_costs_a_retry_and_the_last_one_is_the_end(state: State) -> None:
    first = after_end(job(state, retries=1), over(Cause.FAILED))
    assert (first.row.state, first.row.failures) == (State.QUEUED, 1)
    last = after_end(job(state, retries=1, failures=1), over(Cause.FAILED, code=3))
    assert (last.row.state, last.row.code, last.row.reason) == (State.FAILED, 3, "exit code 1")


def test_the_wait_before_a_retry_doubles_and_has_a_limit() -> None:
    waits = [after_end(job(retries=50, failures=n), over(Cause.FAILED)).retry_in_s for n in range(50)]
    assert waits[:3] == [BACKOFF_S, 2 * BACKOFF_S, 4 * BACKOFF_S]
    assert max(waits) == LONGEST_BACKOFF_S


def test_what_cannot_be_started_is_not_tried_again() -> None:
    assert after_end(job(State.STARTING, retries=5), over(Cause.UNSTARTABLE)).row.state is State.FAILED


def test_out_of_memory_says_so() -> None:
    assert after_end(job(), over(Cause.OUT_OF_MEMORY)).row.reason == "out of memory: exit code 1"


def test_a_loss_is_free_of_charge() -> None:
    outcome = after_end(job(), over(Cause.LOST))
    assert (outcome.row.state, outcome.row.failures, outcome.row.restarts) == (State.QUEUED, 0, 1)
    assert outcome.retry_in_s == 0.0


def test_a_job_that_is_always_lost_and_never_makes_a_step_ends() -> None:
    outcome = after_end(job(restarts=MOST_LOSSES), over(Cause.LOST))
    assert outcome.row.state is State.FAILED
    assert f"lost {MOST_LOSSES + 1} times" in outcome.row.reason


def test_a_result_counts_even_while_it_is_being_cancelled() -> None:
    assert after_end(job(State.STOPPING), over(Cause.FINISHED)).row.state is State.SUCCEEDED


def test_a_job_that_left_without_being_asked_goes_on_later() -> None:
    assert after_end(job(), over(Cause.SUSPENDED)).row.state is State.QUEUED


@pytest.mark.parametrize(("state", "event"), [(State.STARTING, Event.STARTED), (State.RESIZING, Event.RESIZED)])
def test_all_workers_there_means_running(state: State, event: Event) -> None:
    outcome = after_running(job(state), running({"n0": 2}))
    assert outcome is not None
    assert outcome.row.state is State.RUNNING
    assert outcome.steps == ((event, "2 on n0"),)


@pytest.mark.parametrize("state", [State.RUNNING, State.SUSPENDING, State.STOPPING])
def test_workers_of_a_job_on_its_way_out_change_nothing(state: State) -> None:
    assert after_running(job(state), running({"n0": 2})) is None


@pytest.mark.parametrize("state", [State.STARTING, State.RUNNING])
def test_a_job_that_turns_out_to_be_of_another_kind_is_remembered_so_with_the_reason(state: State) -> None:
    outcome = after_running(job(state), running({"n0": 2}, kind="rigid", why="it never called us"))
    assert outcome is not None
    assert (outcome.row.kind, outcome.row.kind_reason) == ("rigid", "it never called us")


def test_a_clock_that_is_behind_makes_no_service_count_twice() -> None:
    outcome = after_running(job(State.STARTING, service_gpu_s=5.0), running({"n0": 2}, at_s=40.0))
    assert outcome is not None
    assert (outcome.row.as_of_s, outcome.row.service_gpu_s) == (100.0, 5.0)
    assert after_end(job(), over(Cause.FINISHED, at_s=40.0)).row.service_gpu_s == 0.0


def test_what_was_stored_is_not_heard_again() -> None:
    outcome = after_running(job(State.STARTING, seen=2), running({"n0": 2}))
    assert outcome is not None
    assert outcome.row.seen == 3
    assert after_end(job(), over(Cause.LOST)).row.seen == 9


def test_both_of_two_places_are_taken() -> None:
    assert overlap({"a": 2, "b": 1}, {"b": 3, "c": 1}) == {"a": 2, "b": 3, "c": 1}
