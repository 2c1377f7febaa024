"""From present grants and a decision to ordered changes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from elastane.cluster import Grant, Node
from elastane.policies.plan import Admission, Exact, Plan, Verdict
from elastane.policies.view import JobState, JobView, Ledger, Request, View
from elastane.scheduling.changes import End, Move, Refuse, Renew, Resize, Start, Suspend, changes
from elastane.scheduling.decide import settle

NODES = {f"n{i}": Node(f"n{i}", 4) for i in range(3)}


def grant(**workers: int) -> Grant:
    return Grant.of(workers.items())


def view_of(present: dict[str, Grant | None]) -> View:
    jobs = {}
    for name, held in present.items():
        state = JobState.RUNNING if held else JobState.PENDING
        ledger = Ledger(first_start_s=0.0 if held else None)
        jobs[name] = JobView(name, 0.0, Request(1, 1, 12), state=state, grant=held, ledger=ledger)
    return View(now_s=1.0, jobs=jobs, nodes=NODES)


def made(present, wanted, **admissions):
    plan = Plan(Exact(wanted), admissions={i: Admission(v, "why") for i, v in admissions.items()})
    return changes(present, settle(plan, view_of(present), ends_jobs=True))


def test_every_kind_of_change_is_told_apart():
    held = grant(n0=2)
    cases = [
        (None, held, [Start("a", held)]),
        (held, None, ["suspend"]),
        (held, grant(n0=3), [Resize("a", grant(n0=3))]),
        (held, grant(n0=1), [Resize("a", grant(n0=1))]),
        (held, grant(n1=2), [Move("a", grant(n1=2))]),
        (held, grant(n0=2, n1=1), [Move("a", grant(n0=2, n1=1))]),
        (held, held, []),
        (None, None, []),
    ]
    for before, after, expected in cases:
        found = made({"a": before}, {"a": after} if after else {})
        if expected == ["suspend"]:
            assert [type(change) for change in found] == [Suspend]
        else:
            assert list(found) == expected, (before, after)


def test_a_longer_lease_moves_nothing():
    held = grant(n0=2)
    longer = replace(held, lease_until_s=99.0)
    assert made({"a": held}, {"a": longer}) == (Renew("a", longer),)


def test_turned_away_jobs_come_first_then_who_gives_up_then_who_grows():
    present = {"grow": grant(n0=1), "new": None, "stop": grant(n1=1), "bad": None, "late": grant(n2=1)}
    wanted = {"grow": grant(n0=3), "new": grant(n1=4)}
    found = made(present, wanted, bad=Verdict.REJECT, late=Verdict.REJECT)
    assert [type(change) for change in found] == [Refuse, End, Suspend, Resize, Start]


def test_jobs_that_cannot_be_changed_now_are_left_out():
    present = {"a": grant(n0=1), "b": grant(n1=1)}
    decision = settle(Plan(Exact({})), view_of(present))
    assert [change.job for change in changes({"b": present["b"]}, decision)] == ["b"]


GRANTS = st.one_of(
    st.none(),
    st.dictionaries(st.sampled_from(sorted(NODES)), st.integers(1, 2), min_size=1, max_size=3).map(
        lambda workers: grant(**workers)
    ),
)
STATES = st.dictionaries(st.sampled_from("abcdef"), st.tuples(GRANTS, GRANTS), max_size=6)


@given(states=STATES, rejected=st.sets(st.sampled_from("abcdef")))
def test_applied_one_by_one_the_changes_end_in_what_was_decided(states, rejected):
    present: dict[str, Grant | None] = {}
    used: Counter[str] = Counter()
    for name, (held, _) in states.items():  # a state that fits
        need = Counter({part.node: part.workers for part in held.slices}) if held else Counter()
        fits = all(used[node] + count <= NODES[node].gpus for node, count in need.items())
        present[name] = held if fits else None
        used += need if fits else Counter()
    wanted = {name: want for name, (_, want) in states.items() if want is not None}
    decision = settle(
        Plan(Exact(wanted), admissions={j: Admission(Verdict.REJECT, "") for j in rejected if j in states}),
        view_of(present),
        ends_jobs=True,
    )
    after = dict(present)
    for change in changes(present, decision):
        gone = isinstance(change, Refuse | End)
        after[change.job] = None if gone or isinstance(change, Suspend) else change.grant
        if gone:
            del after[change.job]
    assert {job: held for job, held in after.items() if held is not None} == dict(decision.grants)
