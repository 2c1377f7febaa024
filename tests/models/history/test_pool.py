"""The pool: what it keeps, whom it shows what, and who is left out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.models.history import Experience, Pool, Signature
from helpers.past_jobs import past_job

CIFAR = Signature(app="cifar10")


def ids(pool: Pool) -> list[str]:
    return [past.id for past in pool]


# ---- bounds ------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abc"), st.sampled_from("xy")), max_size=80))
def test_the_pool_never_holds_more_than_it_may(jobs: list[tuple[int, str, str]]) -> None:
    pool = Pool(most=12, most_alike=5)
    for number, app, tenant in jobs:
        past = Experience(f"{number}{app}{tenant}", Signature(app=app, tenant=tenant), total_work=1.0)
        dropped = pool.add(past)
        assert past.id in pool
        assert not any(each in pool for each in dropped)
        assert len(pool) <= 12
        for kind in {(each.signature.app, each.tenant) for each in pool}:
            assert sum((each.signature.app, each.tenant) == kind for each in pool) <= 5


def test_of_one_kind_the_oldest_redundant_one_goes_first() -> None:
    pool = Pool(most_alike=3)
    for number, batch in enumerate((64, 32, 32, 16)):
        dropped = pool.add(past_job(number, batch=batch))
    assert dropped == ("cifar10-1",)  # another with batch 32 is newer; the only one with 64 stays
    assert pool.add(past_job(4, batch=8)) == ("cifar10-0",)


def test_over_all_kinds_the_oldest_goes_first() -> None:
    pool = Pool([past_job(1), past_job(2, "bert")], most=2)
    assert pool.add(past_job(3, "ncf")) == ("cifar10-1",)
    assert ids(pool) == ["bert-2", "ncf-3"]


def test_a_job_that_could_never_be_found_is_not_kept() -> None:
    pool = Pool([Experience("x", Signature())])
    assert len(pool) == 0


def test_more_of_a_known_job_is_added_to_what_is_known() -> None:
    pool = Pool([past_job(1, places=[(1, 1, 128)], total_work=None), past_job(1, places=[(1, 4, 128)])])
    [past] = pool
    assert [row.workers for row in past.timings["t4"]] == [1, 4]
    assert past.total_work == 1e6


# ---- who sees what -----------------------------------------------------------------------------------------


def test_a_job_is_private_to_its_tenant_unless_shared() -> None:
    secret, open_ = past_job(1, tenant="a"), past_job(2, tenant="a", shared=True)
    mine, others = Signature(app="cifar10", tenant="a"), Signature(app="cifar10", tenant="b")
    assert Pool([secret]).recall(mine) is not None
    assert Pool([secret]).recall(others) is None
    seen = Pool([secret, open_]).recall(others)
    assert seen is not None
    assert seen.neighbours == 1


def test_no_job_learns_from_itself() -> None:
    pool = Pool([past_job(1, total_work=1.0), past_job(2, total_work=100.0)])
    assert Pool([past_job(1)]).recall(CIFAR, exclude="cifar10-1") is None
    memory = pool.recall(CIFAR, exclude="cifar10-1")
    assert memory is not None
    assert memory.neighbours == 1
    total = memory.total_work()
    assert total is not None
    assert total.mean == pytest.approx(100.0)


def test_a_kind_never_met_is_not_known() -> None:
    assert Pool([past_job(1)]).recall(Signature(app="gpt")) is None


def test_neighbours_much_less_alike_than_the_nearest_are_left_out() -> None:
    same = past_job(1, script="s", config="c")
    pool = Pool([same, past_job(2, script="other"), past_job(3, script="s", config="d")])
    memory = pool.recall(same.signature)
    assert memory is not None
    assert memory.neighbours == 2
    assert memory.similarity == 1.0


def test_the_answer_changes_with_the_pool_and_only_then() -> None:
    pool = Pool([past_job(1)])
    first = pool.recall(CIFAR)
    assert pool.recall(CIFAR) is first
    assert pool.recall(CIFAR, exclude="nobody") is first
    pool.add(past_job(2))
    second = pool.recall(CIFAR)
    assert second is not None
    assert second.neighbours == 2
    pool.remove("cifar10-2")
    pool.remove("cifar10-1")
    assert pool.recall(CIFAR) is None


def test_what_is_recalled_does_not_depend_on_the_order_of_equals() -> None:
    jobs = [past_job(n, slower=1.0 + n / 50) for n in range(6)]
    one, other = Pool(jobs).recall(CIFAR), Pool(reversed(jobs)).recall(CIFAR)
    assert one is not None
    assert other is not None
    assert one.expected["t4"].params == pytest.approx(other.expected["t4"].params, rel=1e-3)


def test_shared_or_not_a_job_keeps_its_place() -> None:
    pool = Pool([past_job(1), past_job(2)])
    pool.add(replace(past_job(1), shared=True))
    assert ids(pool) == ["cifar10-2", "cifar10-1"]
