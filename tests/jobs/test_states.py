from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.errors import ElastaneError
from elastane.jobs.states import EDGES, HOLDING, TERMINAL, Event, InvalidTransition, State, advance, step

S, E = State, Event


def after(*events: Event) -> State:
    state = S.SUBMITTED
    for event in events:
        state = advance(state, event)
    return state


def test_the_plain_life_of_a_job() -> None:
    assert after(E.ADMIT, E.START, E.STARTED) is S.RUNNING
    assert after(E.ADMIT, E.START, E.STARTED, E.RESIZE, E.RESIZED, E.FINISH) is S.SUCCEEDED
    assert after(E.ADMIT, E.START, E.STARTED, E.SUSPEND, E.SAVED, E.START, E.STARTED) is S.RUNNING
    assert after(E.ADMIT, E.START, E.CRASH, E.REQUEUE) is S.QUEUED
    assert after(E.ADMIT, E.START, E.STARTED, E.LOSE, E.RECOVER) is S.RUNNING


def test_a_cancelled_job_that_finished_in_time_keeps_its_result() -> None:
    assert after(E.ADMIT, E.START, E.STARTED, E.CANCEL, E.FINISH) is S.SUCCEEDED


@pytest.mark.parametrize("state", State)
def test_every_unfinished_job_can_be_cancelled_and_then_ends(state: State) -> None:
    if state in TERMINAL or state is S.STOPPING:
        return
    cancelled = advance(state, E.CANCEL)
    assert cancelled is S.CANCELLED or advance(cancelled, E.STOPPED) is S.CANCELLED


def test_the_table_covers_every_state_and_every_state_can_be_reached() -> None:
    reached = {S.SUBMITTED} | {target for edges in EDGES.values() for target in edges.values()}
    assert reached == set(EDGES) == set(State)


def test_terminal_states_are_the_four_endings() -> None:
    assert {S.SUCCEEDED, S.FAILED, S.CANCELLED, S.REJECTED} == TERMINAL
    assert not TERMINAL & HOLDING


@pytest.mark.parametrize("state", State)
def test_some_ending_is_reachable_from_everywhere(state: State) -> None:
    seen, todo = {state}, [state]
    while todo:
        found = set(EDGES[todo.pop()].values()) - seen
        seen |= found
        todo += found
    assert seen & TERMINAL


@given(st.lists(st.sampled_from(Event), max_size=60))
def test_no_sequence_of_events_leaves_the_table_and_endings_absorb(events: list[Event]) -> None:
    state = S.SUBMITTED
    for event in events:
        before = state
        try:
            state = advance(before, event)
        except InvalidTransition:
            assert event not in EDGES[before]
        else:
            assert before not in TERMINAL
            assert EDGES[before][event] is state


@given(st.sampled_from(State), st.sampled_from(Event), st.floats(0, 1e9))
def test_a_record_tells_the_step_it_made(state: State, event: Event, at_s: float) -> None:
    if event in EDGES[state]:
        record = step(state, event, at_s, "by a test")
        assert (record.at_s, record.source, record.cause) == (at_s, state, event)
        assert record.target is advance(state, event)


def test_an_impossible_step_names_the_state_and_the_event_and_is_a_user_error() -> None:
    with pytest.raises(ElastaneError, match="cannot cancel a job that is succeeded") as caught:
        advance(S.SUCCEEDED, E.CANCEL)
    assert isinstance(caught.value, InvalidTransition)
    assert (caught.value.state, caught.value.event) == (S.SUCCEEDED, E.CANCEL)
