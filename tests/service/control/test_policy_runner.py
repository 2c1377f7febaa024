"""Policies that crash, hang or lie change nothing but a message."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from elastane.cluster import Grant, Node
from elastane.errors import ElastaneError
from elastane.jobs.states import State
from elastane.policies.contract import Policy
from elastane.policies.fifo import Fifo
from elastane.policies.plan import Exact, Plan
from elastane.policies.view import JobView, Request, View
from elastane.scheduling.decide import Decision, decide
from elastane.service.control.policy_runner import PolicyRunner, ShadowPolicy
from service.helpers import ANN, Strange, raises, started, world

NODES = {"n0": Node("n0", 2, "cpu")}
VIEW = View(now_s=0.0, jobs={"j1": JobView("j1", 0.0, Request())}, nodes=NODES)
KEEP = Strange()


@contextmanager
def hangs() -> Iterator[Strange]:
    """Until the test is over."""
    over = threading.Event()

    def answer(view: View) -> Plan:
        over.wait(60.0)
        return Fifo().decide(view)

    try:
        yield Strange(answer)
    finally:
        over.set()


def ask(policy: Policy, patience_s: float = 30.0) -> Decision | str:
    return asyncio.run(PolicyRunner(patience_s).ask(policy, VIEW))


def test_a_sound_policy_is_answered_with_grants() -> None:
    answer = ask(KEEP)
    assert isinstance(answer, Decision)
    assert answer.lowered.grants == {"j1": Grant.of([("n0", 1)])}
    assert answer.took_ms > 0.0


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("too\nlong"), "policy strange crashed: ValueError: too long; the last plan stands"),
        (ElastaneError("no model"), "policy strange failed: no model; the last plan stands"),
        # These mean something to who waits for an answer; a policy's must not be taken for them.
        (
            TimeoutError("mine"),
            "policy strange crashed: RuntimeError: TimeoutError mine; the last plan stands",
        ),
        (StopIteration(), "policy strange crashed: RuntimeError: StopIteration; the last plan stands"),
        (
            KeyboardInterrupt(),
            "policy strange crashed: RuntimeError: KeyboardInterrupt; the last plan stands",
        ),
        (
            asyncio.CancelledError(),
            "policy strange crashed: RuntimeError: CancelledError; the last plan stands",
        ),
    ],
)
def test_a_policy_that_raises_is_a_line(error: BaseException, words: str) -> None:
    assert ask(raises(error)) == words


def test_a_plan_that_makes_no_sense_is_a_line() -> None:
    answer = ask(Strange(lambda view: None))  # type: ignore[arg-type,return-value]
    assert isinstance(answer, str)
    assert answer.startswith("policy strange crashed: ")


def test_a_plan_that_gives_too_much_is_cut_down_by_the_guard() -> None:
    answer = ask(Strange(lambda view: Plan(Exact({"j1": Grant.of([("n0", 9)])}))))
    assert isinstance(answer, Decision)
    assert answer.lowered.grants == {}


def test_a_policy_that_hangs_is_left_alone_and_others_are_asked() -> None:
    async def rounds(hanging: Policy) -> list[Decision | str]:
        asker = PolicyRunner(0.05)
        return [await asker.ask(hanging, VIEW), await asker.ask(hanging, VIEW)]

    async def another(asker: PolicyRunner) -> Decision | str:
        return await asker.ask(KEEP, VIEW)

    with hangs() as policy:
        first, second = asyncio.run(rounds(policy))
        threads = [thread for thread in threading.enumerate() if thread.name == "policy"]
        assert first == "policy strange did not answer within 0.05 s; the last plan stands"
        assert second == "policy strange has not come back from an earlier decision; the last plan stands"
        assert len(threads) == 1
        assert threads[0].daemon  # or the process could not end
        assert isinstance(asyncio.run(another(PolicyRunner(30.0))), Decision)


def test_a_policy_that_came_back_is_asked_again() -> None:
    async def rounds() -> Decision | str:
        asker = PolicyRunner(0.05)
        with hangs() as policy:
            assert isinstance(await asker.ask(policy, VIEW), str)
        for _, thread in asker._hanging:
            thread.join(30.0)
        asker._patience_s = 30.0
        return await asker.ask(policy, VIEW)

    assert isinstance(asyncio.run(rounds()), Decision)


def test_a_shadow_counts_where_it_differs() -> None:
    shadow = ShadowPolicy(KEEP)
    decision = decide(KEEP, VIEW)
    shadow.compare(decision, decision.lowered.grants)
    shadow.compare(decision, {})
    shadow.compare("it crashed", {})
    assert (shadow.decisions, shadow.differs, shadow.last) == (2, 1, "it crashed")


# Over the whole control plane.


@pytest.mark.parametrize("problem", ["raises", "hangs"])
def test_the_last_plan_stands_while_a_policy_is_of_no_use(tmp_path: Path, problem: str) -> None:
    with world(tmp_path) as w, hangs() as hanging:
        job = started(w, samples=100_000, workers=1)
        grant = w.row(job).grant
        w.plane.decisions._runner = PolicyRunner(0.05 if problem == "hangs" else 30.0)
        w.plane.decisions.use_policy(hanging if problem == "hangs" else raises(ValueError("no")))
        waiting = w.submit()
        w.round()
        words = "did not answer" if problem == "hangs" else "crashed: ValueError: no"
        assert words in w.service.policy().problem
        assert w.service.policy().problem in w.service.info().warnings
        assert (w.row(job).grant, w.state(job)) == (grant, State.RUNNING)
        assert w.state(waiting) is State.QUEUED
        assert w.service.why(waiting, instead=True).instead == []
        w.plane.decisions._runner = PolicyRunner(30.0)
        w.service.set_policy(ANN, "fifo")
        w.round()
        assert w.service.policy().problem == ""
        assert w.state(waiting) is State.STARTING


def test_jobs_end_while_a_policy_is_of_no_use(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        job = started(w)
        w.plane.decisions.use_policy(raises(ValueError("no")))
        w.until_state(job, State.SUCCEEDED)


def test_a_shadow_that_crashes_or_hangs_holds_nobody_up(tmp_path: Path) -> None:
    class Impatient(PolicyRunner):
        async def ask(self, policy: Policy, view: View) -> Decision | str:
            self._patience_s = 0.05 if policy is hanging else 30.0
            return await super().ask(policy, view)

    with world(tmp_path) as w, hangs() as hanging:
        w.plane.decisions._runner = Impatient(30.0)
        for policy in (raises(ValueError("no")), hanging):
            w.plane.decisions.use_shadow(ShadowPolicy(policy))
            job = w.submit(workers=1)
            w.round()
            assert w.state(job) is State.STARTING
            assert "the last plan stands" in w.service.policy().shadow_last
            assert w.service.policy().problem == ""


def test_an_answer_of_a_policy_that_was_replaced_meanwhile_is_not_taken(tmp_path: Path) -> None:
    asked, may_answer = threading.Event(), threading.Event()

    def slowly(view: View) -> Plan:
        asked.set()
        may_answer.wait(60.0)
        return Plan(Exact({}), memory={"of": "the old one"})

    with world(tmp_path) as w:
        job = started(w)
        w.plane.decisions.use_policy(Strange(slowly))

        async def replaced() -> None:
            w.plane.poke("test")
            deciding = asyncio.create_task(w.plane.round())
            await asyncio.to_thread(asked.wait, 60.0)
            w.service.set_policy(ANN, "fifo")
            may_answer.set()
            await deciding

        w.run(replaced())
        assert w.state(job) is State.RUNNING
        assert w.plane.rounds.memory is None
        w.until_state(job, State.SUCCEEDED)
