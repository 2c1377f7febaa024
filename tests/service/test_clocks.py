"""A clock that is set back keeps nobody waiting and opens nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastane.jobs.states import State
from elastane.service.control.state_after_end import BACKOFF_S, LONGEST_BACKOFF_S
from service.helpers import World, started, world

HOURS_3 = 3 * 3600.0


@pytest.fixture
def w(tmp_path: Path):
    with world(tmp_path) as made:
        made.clock.now_s += 10 * HOURS_3
        yield made


def test_a_retry_does_not_wait_as_long_as_the_clock_jumped_back(w: World) -> None:
    job = started(w, retries=1)
    w.engine.fail(job)
    w.round()
    assert w.state(job) is State.QUEUED
    w.clock.now_s -= HOURS_3
    w.round()
    assert w.state(job) is State.QUEUED
    w.pass_time(BACKOFF_S)
    assert w.state(job) is State.STARTING


def test_a_retry_does_not_wait_for_a_clock_that_was_set_back_while_nobody_ran(w: World) -> None:
    job = started(w, retries=1)
    w.engine.fail(job)
    w.round()
    w.clock.now_s -= HOURS_3
    w.crash()
    w.until(lambda: w.state(job) is not State.QUEUED, most_s=LONGEST_BACKOFF_S + 1.0)


def test_rounds_go_on_at_their_pace_when_the_clock_is_set_back(w: World) -> None:
    started(w, samples=10**6)
    w.pass_time(1.0)
    due_in_s = w.plane.rounds.due_s - w.clock.now_s
    w.clock.now_s -= HOURS_3
    w.round()
    assert w.plane.rounds.due_s - w.clock.now_s <= due_in_s
    count = w.plane.rounds.count
    w.pass_time(due_in_s)
    assert w.plane.rounds.count > count


def test_a_token_that_has_expired_stays_so_when_the_clock_is_set_back(w: World) -> None:
    with w.store.transaction() as t:
        t.accounts.add_user("bob", "user")
        short = t.accounts.add_token("bob", expires_s=w.clock.now_s + 60.0)
        long = t.accounts.add_token("bob", expires_s=w.clock.now_s + HOURS_3)
        endless = t.accounts.add_token("bob")
    w.round()
    assert w.store.accounts.authenticate(short.token, w.clock.now_s)
    w.pass_time(120.0, 30.0)
    assert w.store.accounts.authenticate(short.token, w.clock.now_s) is None
    w.clock.now_s -= HOURS_3
    w.crash()
    assert w.store.accounts.authenticate(short.token, w.clock.now_s) is None
    assert w.store.accounts.authenticate(long.token, w.clock.now_s)
    assert w.store.accounts.authenticate(endless.token, w.clock.now_s)


def test_a_token_made_after_the_clock_was_set_right_is_good(w: World) -> None:
    w.clock.now_s += 1000 * HOURS_3  # somebody's mistake
    w.round()
    w.clock.now_s -= 1000 * HOURS_3
    with w.store.transaction() as t:
        t.accounts.add_user("bob", "user")
        made = t.accounts.add_token("bob", expires_s=w.clock.now_s + 60.0)
    w.round()
    assert w.store.accounts.authenticate(made.token, w.clock.now_s)
