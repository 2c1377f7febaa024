"""A test that cannot fail protects nothing: for every check of the suite, a policy that it catches."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from elastane.cluster import Grant
from elastane.policies.contract import Needs, Policy
from elastane.policies.plan import Exact, Fill, Order, Plan, Spread, Want, Wants
from elastane.policies.reasons import Job, said
from elastane.policies.view import Info, JobView, MaskedInformation, View
from elastane.testing.policies import PolicyConformance, scenarios


@dataclass(frozen=True)
class Sound(Policy):
    """First come, first served, whoever fits; the bad ones below differ from it in one respect each."""

    name: ClassVar[str] = "sound"
    title: ClassVar[str] = "Sound"
    paper: ClassVar[str] = "none"
    needs: ClassVar[Needs] = Needs()

    def key(self, job: JobView) -> Any:
        return (job.grant is None, job.submit_s, job.id)

    def order(self, view: View) -> tuple[str, ...]:
        return tuple(job.id for job in sorted(view.jobs.values(), key=self.key))

    def decide(self, view: View) -> Plan:
        return Plan(Order(self.order(view), Fill.SKIP))


class AtRandom(Sound):
    def key(self, job: JobView) -> Any:
        return random.random()


class ByTheClock(Sound):
    def decide(self, view: View) -> Plan:
        return replace(super().decide(view), wake_s=(time.perf_counter(),))


class AsListed(Sound):
    def order(self, view: View) -> tuple[str, ...]:
        return tuple(view.jobs)


class NodesAsListed(Sound):
    """Tells the jobs that wait about the first node it happened to see."""

    def decide(self, view: View) -> Plan:
        first = next(iter(view.nodes), None)
        return replace(super().decide(view), explain=dict.fromkeys(view.jobs, f"first node is {first}"))


class Overcommitting(Sound):
    def decide(self, view: View) -> Plan:
        node = min(view.nodes, default="none")
        return Plan(Exact({i: Grant.of([(node, job.request.workers)]) for i, job in view.jobs.items()}))


class Stretching(Sound):
    """Gives rigid jobs one worker more."""

    def decide(self, view: View) -> Plan:
        return Plan(Wants({i: Want(view.jobs[i].request.max_workers + 1) for i in self.order(view)}))


class Peeking(Sound):
    """Reads what it did not declare, past the property that would raise."""

    def key(self, job: JobView) -> Any:
        left = job.facts.remaining
        return (left.mean if left else 0.0, job.id)


class AskingOpenly(Sound):
    def key(self, job: JobView) -> Any:
        return (job.deadline_s or 0.0, job.id)


class SilentAboutPrices(Sound):
    def decide(self, view: View) -> Plan:
        price = sum(node.price_per_gpu_h for node in view.nodes.values())
        return replace(super().decide(view), memory=str(price))


class UnserialisableMemory(Sound):
    def decide(self, view: View) -> Plan:
        return replace(super().decide(view), memory={"seen": set(view.jobs)})


class MemoryThatChangesInAStore(Sound):
    """Whole numbers as keys come back as words, so after a restart it has forgotten."""

    def decide(self, view: View) -> Plan:
        rounds = (view.memory or {}).get(0, 0)
        ordered = self.order(view)
        turned = ordered if rounds % 2 == 0 else ordered[::-1]
        return Plan(Order(turned, Fill.SKIP), memory={0: rounds + 1})


class WritingIntoTheView(Sound):
    def decide(self, view: View) -> Plan:
        if view.memory is not None:
            view.memory["count"] += 1
        return replace(super().decide(view), memory={"count": 0})


class HiddenState(Sound):
    """Remembers across lives, outside its plans."""

    calls: ClassVar[list[float]] = []

    def order(self, view: View) -> tuple[str, ...]:
        self.calls.append(view.now_s)
        ordered = super().order(view)
        return ordered if len(self.calls) % 3 else ordered[::-1]


class Churning(Sound):
    """Those who run go last, so they change places for ever."""

    def key(self, job: JobView) -> Any:
        return (job.grant is not None, job.submit_s, job.id)


class Speechless(Sound):
    """Leaves the last job out and does not say why."""

    def order(self, view: View) -> tuple[str, ...]:
        return super().order(view)[:-1]


class Indiscreet(Sound):
    """Names the first job to all others, unmarked."""

    def decide(self, view: View) -> Plan:
        first = min(view.jobs, default="none")
        return replace(super().decide(view), explain=dict.fromkeys(view.jobs, f"waits behind {first}"))


class Discreet(Sound):
    """Marks the job that it names."""

    def decide(self, view: View) -> Plan:
        first = min(view.jobs, default="none")
        return replace(super().decide(view), explain=dict.fromkeys(view.jobs, said("behind ", Job(first))))


class Lazy(Sound):
    """Starts nobody, politely."""

    def decide(self, view: View) -> Plan:
        return Plan(Order(()), explain=dict.fromkeys(view.jobs, "tomorrow"))


class StopsPinned(Sound):
    """Starts the first job and stops it as soon as another one waits."""

    def decide(self, view: View) -> Plan:
        if len(view.jobs) == 1:
            return super().decide(view)
        return Plan(Exact({}), explain=dict.fromkeys(view.jobs, "no"))


class UsesGoneNodes(Sound):
    """Insists on the places that jobs hold."""

    def decide(self, view: View) -> Plan:
        held = {i: job.grant for i, job in view.jobs.items() if job.grant}
        return Plan(Exact(held), explain=dict.fromkeys(view.jobs, None))


class Fragile(Sound):
    def decide(self, view: View) -> Plan:
        max(node.gpus for node in view.nodes.values())
        return super().decide(view)


class ShortestFirst(Sound):
    """Starves long jobs and says it does not."""

    needs: ClassVar[Needs] = Needs(info=Info.REMAINING)
    starvation_free: ClassVar[bool] = True

    def key(self, job: JobView) -> Any:
        return (job.remaining.mean if job.remaining else 0.0, job.id)


class StrictQueue(Sound):
    starvation_free: ClassVar[bool] = True

    def decide(self, view: View) -> Plan:
        return Plan(Order(self.order(view), Fill.STRICT, Spread.EMPTIEST))


def suite(policy: type[Policy]) -> PolicyConformance:
    """The suite for one policy, with views enough to be sure."""
    made = type("Suite", (PolicyConformance,), {"policy": policy(), "examples": 40})
    return made()  # type: ignore[no-any-return]


Check = Callable[[PolicyConformance], None]
sound: Check = PolicyConformance.test_every_decision_on_a_sane_view_is_sound
same: Check = PolicyConformance.test_the_same_view_gives_the_same_plan
listed: Check = PolicyConformance.test_the_order_in_which_jobs_and_nodes_are_listed_does_not_matter
again: Check = PolicyConformance.test_deciding_again_at_the_same_instant_changes_nothing
gone: Check = PolicyConformance.test_a_vanished_node_is_not_used
busy: Check = PolicyConformance.test_every_step_of_a_busy_life_is_sound
crash: Check = PolicyConformance.test_memory_survives_a_crash_at_any_step
lives: Check = PolicyConformance.test_two_lives_are_the_same
failure: Check = PolicyConformance.test_jobs_of_a_failed_node_are_queued_again


def hidden(tested: PolicyConformance) -> None:
    tested.test_what_was_not_declared_does_not_matter(1e12)


def nonsense(tested: PolicyConformance) -> None:
    tested.test_what_was_not_declared_does_not_matter(float("nan"))


def extremes(tested: PolicyConformance) -> None:
    tested.test_extremes_are_survived((), 1)


def alone(tested: PolicyConformance) -> None:
    tested.test_a_job_alone_starts_and_finishes(scenarios.PAIR, scenarios.SINGLES[0])


def pinned(tested: PolicyConformance) -> None:
    tested.test_a_job_that_cannot_be_suspended_keeps_its_grant(scenarios.FIXED[0])


def starving(tested: PolicyConformance) -> None:
    tested.test_nobody_starves(scenarios.LONG[1])


ALL = (sound, same, listed, hidden, nonsense, again, gone, extremes, busy, crash, lives, alone, pinned, failure)


@pytest.mark.parametrize("check", ALL)
def test_a_sound_policy_passes(check: Check) -> None:
    check(suite(Sound))


def test_a_job_may_be_mentioned_where_it_is_marked() -> None:
    sound(suite(Discreet))


@pytest.mark.parametrize(
    ("policy", "check", "message"),
    [
        (AtRandom, same, "(grants|waiting) differ"),
        (ByTheClock, same, "wake_s differs"),
        (HiddenState, same, "(grants|waiting) differ"),
        (WritingIntoTheView, same, "wrote into view.memory"),
        (HiddenState, lives, None),
        (AsListed, listed, "listed in another order: "),
        (NodesAsListed, listed, "listed in another order: "),
        (Overcommitting, sound, "the guard had to refuse"),
        (Stretching, sound, "the guard had to refuse"),
        (Peeking, hidden, "hidden facts set to"),
        (SilentAboutPrices, nonsense, "memory differs"),
        (Churning, again, "jobs move again"),
        (Churning, busy, "jobs move again"),
        (Speechless, sound, "say why in Plan.explain"),
        (Indiscreet, sound, r"mentions \w+; use said"),
        (Speechless, gone, "say why in Plan.explain"),
        (StopsPinned, sound, "the guard had to refuse"),
        (StopsPinned, pinned, None),
        (UsesGoneNodes, failure, None),
        (MemoryThatChangesInAStore, crash, None),
        (Lazy, alone, "left waiting"),
        (Lazy, failure, "did not finish"),
        (ShortestFirst, starving, "has not run"),
    ],
)
def test_a_bad_policy_is_caught(policy: type[Policy], check: Check, message: str | None) -> None:
    if policy is HiddenState:
        HiddenState.calls.clear()
    with pytest.raises(AssertionError, match=message):
        check(suite(policy))


@pytest.mark.parametrize("check", [sound, same, busy, crash])
def test_memory_that_is_not_json_is_caught(check: Check) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        check(suite(UnserialisableMemory))


@pytest.mark.parametrize("check", [sound, nonsense])
def test_reading_openly_what_was_not_declared_raises(check: Check) -> None:
    with pytest.raises(MaskedInformation, match=r"Info\.DEADLINE"):
        check(suite(AskingOpenly))


def test_a_policy_that_breaks_on_an_empty_cluster_is_caught() -> None:
    with pytest.raises(ValueError, match="empty"):
        extremes(suite(Fragile))


def test_a_promise_that_is_kept_passes_and_one_that_was_not_made_is_skipped() -> None:
    for trial in scenarios.LONG:
        suite(StrictQueue).test_nobody_starves(trial)
    with pytest.raises(pytest.skip.Exception, match="starvation_free"):
        starving(suite(Sound))


def test_a_failure_shows_the_view_it_was_found_on() -> None:
    with pytest.raises(AssertionError) as caught:
        sound(suite(Speechless))
    assert "view at" in caught.value.__notes__[0]
