"""What a policy may see: who competes, within which limits, and why somebody does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from elastane.cluster import Grant, Node
from elastane.jobs.states import State
from elastane.policies.contract import Policy
from elastane.policies.registry import make_policy
from elastane.policies.view import Ability, Info, JobState
from elastane.scheduling.facts import Situation
from elastane.service.control.active_job import LiveJob
from elastane.service.control.facts import AdjustedView, build_view
from elastane.service.messages import QuotaInfo
from elastane.service.store import JobRow

NODES = {name: Node(name, 4, "cpu") for name in ("n0", "n1")}
FIFO = make_policy("fifo")


def job(number: int, workers: Any = 1, held: int = 0, **changes: Any) -> LiveJob:
    spec: dict[str, Any] = {"command": ["train"], "workers": workers, "priority": changes.pop("priority", 0)}
    spec["resources"] = {"gpus": changes.pop("gpus", 1)}
    plain: dict[str, Any] = {
        "name": f"job-{number}",
        "owner": "ann",
        "tenant": "a",
        "directory": "/tmp",
        "submitted_s": float(number),
        "kind": "adaptive",
    }
    if held:
        plain |= {"state": State.RUNNING, "grant": Grant.of([("n0", held)]), "attempt": 1, "first_start_s": 1.0}
    return LiveJob.of(JobRow(number=number, spec=spec, **{"state": State.QUEUED, **plain, **changes}))


def seen(*jobs: LiveJob, slots: int | None = None, now_s: float = 10.0, policy: Policy = FIFO) -> AdjustedView:
    quotas = {"a": QuotaInfo(tenant="a", slots=slots)} if slots is not None else {}
    return build_view(Situation(now_s, NODES, NODES), quotas, jobs, policy)


def test_limits_are_those_of_the_owner_and_of_the_cluster() -> None:
    view = seen(job(1, {"min": 2}), job(2, {"min": 1, "max": 3}), job(3, {"min": 1, "max": 99})).view
    assert [(j.request.min_workers, j.request.max_workers) for j in view.jobs.values()] == [
        (2, 8),
        (1, 3),
        (1, 8),
    ]


def test_a_cluster_that_has_become_too_small_leaves_wishes_in_order() -> None:
    small = Situation(0.0, {"n0": Node("n0", 1, "cpu")}, NODES)
    for situation in (small, replace(small, nodes={})):
        request = build_view(situation, {}, [job(1, {"min": 2})], FIFO).view.jobs["j1"].request
        assert request.min_workers == request.max_workers == 2


def test_a_command_has_one_size_and_may_not_be_touched() -> None:
    view = seen(job(1, 2, held=2, kind="command")).view
    assert view.jobs["j1"].request.max_workers == 2
    assert view.jobs["j1"].abilities is Ability.NONE
    assert view.must_keep(view.jobs["j1"])


def test_a_pinned_size_is_the_only_size() -> None:
    request = seen(job(1, {"min": 1, "max": 8}, pinned_workers=3)).view.jobs["j1"].request
    assert (request.min_workers, request.workers, request.max_workers) == (3, 3, 3)


def test_a_pinned_node_is_where_the_job_stands() -> None:
    view = seen(job(1, {"min": 1, "max": 8}, held=2, pinned_node="n1", pinned_workers=2)).view
    assert view.jobs["j1"].grant == Grant.of([("n1", 2)])
    assert view.must_keep(view.jobs["j1"])


def test_a_job_on_its_way_out_keeps_its_slots_until_it_has_left() -> None:
    for state in (State.SUSPENDING, State.STOPPING):
        view = seen(job(1, held=2, state=state)).view
        assert view.must_keep(view.jobs["j1"])


def test_a_job_on_hold_does_not_compete_and_one_that_still_runs_does() -> None:
    on_hold = seen(job(1, held=0), job(2, state=State.SUSPENDED, attempt=1))
    assert set(on_hold.view.jobs) == {"j1", "j2"}
    waiting = job(3)
    waiting.row = replace(waiting.row, held=True)
    leaving = job(4, held=1, state=State.SUSPENDING)
    leaving.row = replace(leaving.row, held=True)
    both = seen(waiting, leaving)
    assert set(both.view.jobs) == {"j4"}
    assert "elastane resume" in both.withheld["j3"]


def test_a_job_that_failed_waits_for_its_time_and_says_how_long() -> None:
    failed = job(1)
    failed.retry_s = 14.0
    assert seen(failed).withheld == {"j1": "it failed and is tried again in 4 s"}
    assert seen(failed, now_s=14.0).withheld == {}


def test_a_quota_keeps_the_last_out_and_says_so() -> None:
    result = seen(job(1, 2, held=2), job(2, 2), job(3, 1), slots=3)
    assert set(result.view.jobs) == {"j1", "j3"}
    assert result.withheld == {"j2": "tenant a is at its quota of 3 slots"}


def test_within_a_quota_who_holds_something_comes_first_then_priority_then_age() -> None:
    jobs = [job(1), job(2, priority=1), job(3, held=1)]
    assert list(seen(*jobs, slots=1).view.jobs) == ["j3"]
    assert set(seen(*jobs, slots=2).view.jobs) == {"j2", "j3"}
    assert list(seen(*jobs, slots=3).view.jobs) == ["j1", "j2", "j3"]  # as they came


def test_a_running_job_that_cannot_be_saved_is_not_ended_by_a_quota() -> None:
    result = seen(job(1, 2, held=2, kind="command"), job(2), slots=1)
    assert set(result.view.jobs) == {"j1"}


def test_a_place_of_ones_choice_is_no_way_around_a_quota() -> None:
    assert "j1" in seen(job(1, 2, pinned_node="n1", pinned_workers=2), slots=1).withheld


def test_other_tenants_are_not_touched_by_a_quota() -> None:
    assert set(seen(job(1, 8, tenant="b"), slots=0).view.jobs) == {"j1"}


@given(
    sizes=st.lists(
        st.tuples(st.integers(1, 3), st.integers(0, 8), st.integers(1, 2), st.booleans()), max_size=6
    ),
    slots=st.integers(0, 8),
)
def test_however_a_policy_divides_a_tenant_stays_within_its_quota(
    sizes: list[tuple[int, int, int, bool]], slots: int
) -> None:
    jobs = [
        job(n, {"min": least, "max": least + more}, gpus=gpus, held=least if runs else 0)
        for n, (least, more, gpus, runs) in enumerate(sizes, 1)
    ]
    view = seen(*jobs, slots=slots).view
    assert sum(j.request.gpus_of(j.request.max_workers) for j in view.jobs.values()) <= slots
    assert all(j.request.min_workers <= j.request.max_workers for j in view.jobs.values())
    used = sum(j.request.gpus_of(j.request.max_workers) for j in view.jobs.values())
    could_grow = [j for j in jobs if j.id in view.jobs]
    for live in could_grow:
        request = view.jobs[live.id].request
        wanted = live.request(8 // int(live.spec.worker.gpus)).max_workers
        assert request.max_workers == wanted or used + request.gpus_of(1) > slots


def lending(*jobs: LiveJob, **quotas: QuotaInfo) -> AdjustedView:
    return build_view(Situation(10.0, NODES, NODES), quotas, jobs, FIFO)


def quota(tenant: str, slots: int, lends: bool = True) -> QuotaInfo:
    return QuotaInfo(tenant=tenant, slots=slots, lends=lends)


def test_what_an_owner_leaves_idle_is_lent_if_it_lends() -> None:
    jobs = [job(n, 2) for n in (1, 2, 3)]
    a, b = quota("a", 2), quota("b", 4)
    assert set(lending(*jobs, a=a, b=b).view.jobs) == {"j1", "j2", "j3"}
    assert set(lending(*jobs, a=a, b=quota("b", 4, lends=False)).view.jobs) == {"j1"}
    assert lending(*jobs, a=a, b=quota("b", 2)).withheld == {
        "j3": "tenant a is at its quota of 2 slots and has borrowed 2 more"
    }


def test_who_borrowed_gives_back_when_the_owner_needs_it_and_the_first_to_come_stay() -> None:
    jobs = [job(n, 2, held=2) for n in (1, 2, 3)]
    owner = [job(9, 2, tenant="b")]
    a, b = quota("a", 2), quota("b", 4)
    assert set(lending(*jobs, a=a, b=b).view.jobs) == {"j1", "j2", "j3"}
    back = lending(*jobs, *owner, a=a, b=b)
    assert set(back.view.jobs) == {"j1", "j2", "j9"}
    assert set(back.withheld) == {"j3"}


def test_a_job_that_cannot_be_suspended_never_borrows() -> None:
    jobs = [job(1, 2), job(2, 2, kind="command"), job(3, 1, kind="command")]
    seen_ = lending(*jobs, a=quota("a", 2), b=quota("b", 4))
    assert set(seen_.view.jobs) == {"j1", "j2"}  # j1 borrows, so that the quota is there for j2


@given(
    wishes=st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3), st.integers(0, 5)), max_size=8),
    slots=st.tuples(*[st.integers(0, 5)] * 3),
    lends=st.tuples(*[st.booleans()] * 3),
)
def test_no_more_is_borrowed_than_lies_idle(
    wishes: list[tuple[str, int, int]], slots: tuple[int, ...], lends: tuple[bool, ...]
) -> None:
    jobs = [
        job(n, {"min": least, "max": least + more}, tenant=t) for n, (t, least, more) in enumerate(wishes, 1)
    ]
    quotas = {t: quota(t, s, d) for t, s, d in zip("abc", slots, lends, strict=True)}
    view = lending(*jobs, **quotas).view
    asked = {t: sum(j.request(8).max_workers for j in jobs if j.row.tenant == t) for t in "abc"}
    most = {t: sum(j.request.max_workers for j in view.jobs.values() if j.tenant == t) for t in "abc"}
    idle = sum(max(0, q.slots - asked[t]) for t, q in quotas.items() if q.slots is not None and q.lends)
    assert sum(max(0, most[t] - (quotas[t].slots or 0)) for t in "abc") <= idle
    for tenant in "abc":  # an owner's quota is there for the owner, whoever borrows
        alone = lending(*[j for j in jobs if j.row.tenant == tenant], **{tenant: quotas[tenant]}).view
        own = sum(j.request.max_workers for j in alone.jobs.values())
        assert most[tenant] >= own


def test_a_policy_sees_only_what_it_declared() -> None:
    assert seen(job(1)).view.visible is Info.NONE
    assert (
        seen(job(1), policy=make_policy("elastane")).view.visible
        is Info.SPEED | Info.REMAINING | Info.DEADLINE | Info.HISTORY
    )


def test_states_are_those_that_matter_to_a_policy() -> None:
    jobs = [job(1), job(2, held=1), job(3, state=State.SUSPENDED, attempt=1, first_start_s=1.0)]
    assert [j.state for j in (seen(*jobs).view.jobs[f"j{n}"] for n in (1, 2, 3))] == [
        JobState.PENDING,
        JobState.RUNNING,
        JobState.SUSPENDED,
    ]
