"""The loop wakes for what happened and for appointments, and each reason is answered once."""

from __future__ import annotations

import asyncio

import pytest

from elastane.service.control.round import Rounds, remembered
from elastane.service.control.wakeup import Wakeup
from service.helpers import Strange


def test_the_first_of_several_reasons_is_kept_and_answered_once() -> None:
    wakeup = Wakeup()
    wakeup.poke("arrival")
    wakeup.poke("finish")
    assert wakeup.trigger == "arrival"
    assert (wakeup.take_trigger(), wakeup.take_trigger()) == ("arrival", "")


def test_a_round_may_be_asked_for_without_a_decision() -> None:
    async def woken() -> bool:
        wakeup = Wakeup()
        wakeup.again()
        await asyncio.wait_for(wakeup.wait(60.0), 5.0)
        wakeup.round_begins()
        waiting = asyncio.ensure_future(wakeup.wait(60.0))
        await asyncio.sleep(0)
        asleep = not waiting.done()
        wakeup.poke("arrival")
        await asyncio.wait_for(waiting, 5.0)
        return asleep

    assert asyncio.run(woken())


@pytest.mark.parametrize(("now_s", "due"), [(9.0, False), (10.0, True), (15.0, True)])
def test_a_round_is_due_at_the_first_of_its_appointments(now_s: float, due: bool) -> None:
    rounds = Rounds(due_s=20.0, wake_s=(30.0, 10.0))
    assert rounds.next_s() == 10.0
    assert rounds.is_due(now_s) is due
    rounds.set_back(5.0)
    assert (rounds.due_s, rounds.wake_s) == (15.0, (25.0, 5.0))


def test_only_the_policy_that_kept_something_gets_it_back() -> None:
    kept = {"policy": "strange", "memory": {"a": 1}}
    assert remembered(kept, Strange()) == {"a": 1}
    assert remembered({**kept, "policy": "other"}, Strange()) is None
    assert remembered(None, Strange()) is None
