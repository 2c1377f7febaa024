"""What a plan's verdicts mean, the same in every world."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import pytest

from elastane.cluster import Grant, Node
from elastane.policies.contract import Needs, Policy
from elastane.policies.plan import Admission, Exact, Plan, Verdict
from elastane.policies.view import JobState, JobView, Ledger, Request, View
from elastane.scheduling.decide import DEFERRED, decide, settle
from elastane.scheduling.facts import Situation

NODES = {"n0": Node("n0", 4)}
ONE = Grant.of([("n0", 1)])


def job(name: str, state: JobState = JobState.PENDING, **changes: object) -> JobView:
    grant = ONE if state is JobState.RUNNING else None
    started_s = None if state is JobState.PENDING else 1.0
    ledger = Ledger(first_start_s=started_s)
    return JobView(name, 0.0, Request(1), state=state, grant=grant, ledger=ledger, **changes)  # type: ignore[arg-type]


def view(*jobs: JobView) -> View:
    return View(now_s=10.0, jobs={each.id: each for each in jobs}, nodes=NODES)


def plan(verdict: Verdict, *names: str, grants: tuple[str, ...] = (), reason: str = "why") -> Plan:
    return Plan(Exact(dict.fromkeys(grants, ONE)), admissions={n: Admission(verdict, reason) for n in names})


def test_a_rejected_job_that_never_ran_is_refused_and_gets_nothing():
    made = settle(plan(Verdict.REJECT, "a", grants=("a", "b")), view(job("a"), job("b")))
    assert made.refused == {"a": "why"}
    assert not made.ended
    assert set(made.grants) == {"b"}
    assert "a" not in made.waiting


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.SUSPENDED])
@pytest.mark.parametrize("preemptible", [True, False])
def test_a_rejected_job_that_has_run_is_ended_only_by_a_policy_that_ends_jobs(state, preemptible):
    running = job("a", state)
    asked = view(running)
    kept = settle(plan(Verdict.REJECT, "a", grants=("a",)), asked)
    assert not kept.ended
    assert kept.grants == {"a": ONE}
    ended = settle(plan(Verdict.REJECT, "a", grants=("a",)), asked, ends_jobs=True)
    assert ended.ended == {"a": "why"}
    assert not ended.refused
    assert not ended.grants


def test_the_gpus_of_an_ended_job_are_free_in_the_same_decision():
    wide = Grant.of([("n0", 4)])
    old = JobView("a", 0.0, Request(4), state=JobState.RUNNING, grant=wide, ledger=Ledger(first_start_s=0.0))
    new = JobView("b", 0.0, Request(4))
    admissions = {"a": Admission(Verdict.REJECT, "over its limit")}
    made = settle(Plan(Exact({"b": wide}), admissions=admissions), view(old, new), ends_jobs=True)
    assert made.grants == {"b": wide}


@pytest.mark.parametrize(("reason", "told"), [("prices are high", "prices are high"), ("", DEFERRED)])
def test_a_deferred_job_waits_with_the_reason_whatever_the_intent_says(reason, told):
    made = settle(plan(Verdict.DEFER, "a", grants=("a",), reason=reason), view(job("a")))
    assert not made.grants
    assert made.waiting == {"a": told}


def test_deferring_a_running_job_does_nothing():
    made = settle(plan(Verdict.DEFER, "a", grants=("a",)), view(job("a", JobState.RUNNING)))
    assert made.grants == {"a": ONE}


def test_a_downgraded_job_is_named_and_may_run():
    made = settle(plan(Verdict.DOWNGRADE, "a", "gone", grants=("a",)), view(job("a")))
    assert made.downgraded == ("a",)
    assert made.grants == {"a": ONE}


def missing(asked: View, *nodes: str) -> View:
    return replace(asked, missing=nodes)


@pytest.mark.parametrize("ends_jobs", [True, False])
def test_nobody_is_refused_while_a_known_node_does_not_answer(ends_jobs):
    asked = missing(view(job("a"), job("b")), "n1")
    made = settle(plan(Verdict.REJECT, "a", grants=("a", "b")), asked, ends_jobs=ends_jobs)
    assert not made.refused
    assert not made.ended
    assert set(made.grants) == {"b"}
    assert made.waiting == {"a": "why; not refused while n1 is missing"}
    both = settle(plan(Verdict.REJECT, "a", reason=""), missing(view(job("a")), "n1", "n2"))
    assert both.waiting == {"a": "its policy rejects it; not refused while n1, n2 are missing"}


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.SUSPENDED])
def test_a_limit_holds_also_while_nodes_are_missing(state):
    made = settle(plan(Verdict.REJECT, "a"), missing(view(job("a", state)), "n1"), ends_jobs=True)
    assert made.ended == {"a": "why"}


def test_missing_nodes_are_those_known_that_do_not_answer():
    assert Situation(0.0, NODES, known=("n2", "n0", "n1")).missing == ("n1", "n2")
    assert Situation(0.0, NODES, known=NODES).missing == ()


def test_admitting_changes_nothing():
    made = settle(plan(Verdict.ADMIT, "a", grants=("a",)), view(job("a")))
    assert (made.refused, made.ended, made.downgraded) == ({}, {}, ())
    assert made.grants == {"a": ONE}


def test_verdicts_on_jobs_that_are_gone_are_ignored():
    for verdict in Verdict:
        made = settle(plan(verdict, "gone"), view(job("a")), ends_jobs=True)
        assert (made.refused, made.ended, made.downgraded) == ({}, {}, ())


@dataclass(frozen=True)
class _Slow(Policy):
    clock: list[float] = field(default_factory=lambda: [0.0])
    name: ClassVar[str] = "slow"
    title: ClassVar[str] = "Slow"
    paper: ClassVar[str] = ""
    needs: ClassVar[Needs] = Needs()

    def decide(self, view: View) -> Plan:
        self.clock[0] += 0.25
        return Plan(Exact({}))


def test_the_time_a_decision_took_is_the_policys_own():
    policy = _Slow()
    assert decide(policy, view(), lambda: policy.clock[0]).took_ms == 250.0
