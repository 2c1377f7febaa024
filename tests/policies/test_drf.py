"""Dominant resource fairness, on the examples of its paper and of the specification."""

from __future__ import annotations

import pytest

from elastane.cluster import Cluster, Node
from elastane.policies.options import OptionError
from elastane.policies.registry import make_policy
from elastane.policies.view import Tenant
from elastane.resources import Resources


def picks(seen) -> str:
    """Tenants in the order in which the first decision served them."""
    view, plan, _ = seen.first
    return " ".join(view.jobs[i].tenant for i in plan.intent.jobs)


def held(seen, when_s=0.0) -> dict[str, int]:
    """Gangs per tenant after the decision at that time."""
    view, _, decision = seen.at(when_s)
    tenants = [view.jobs[i].tenant for i in decision.grants]
    return {tenant: tenants.count(tenant) for tenant in sorted(set(tenants))}


@pytest.fixture
def many(job):
    """``many("A", 4, gpus=1, cpus=20)``: so many equal gangs of one worker."""

    def make(tenant, count, seconds=100, workers=1, at=0.0, **worker):
        one = Resources(**worker)
        return [
            job(f"{tenant}{i:02d}-{at:g}", workers, seconds, at, worker=one, tenant=tenant)
            for i in range(count)
        ]

    return make


def test_the_example_of_the_paper(schedule, many):
    cluster = Cluster.of([Node("n", gpus=0, cpus=9, memory_gb=18)])
    jobs = [*many("A", 9, cpus=1, memory_gb=4), *many("B", 9, cpus=3, memory_gb=1)]
    seen = schedule("drf", jobs, cluster=cluster)
    assert picks(seen) == "A B A B A"
    assert held(seen) == {"A": 3, "B": 2}
    why = seen.first[2].waiting
    assert why["A03-0"].startswith("tenant A has 67% of all memory at weight 1; this gang needs 1 CPUs")
    assert why["B02-0"].startswith("tenant B has 67% of all CPUs at weight 1")


def test_cpus_dominate_where_gpus_do_not_and_gangs_are_whole_or_nothing(schedule, many):
    cluster = Cluster.of([Node("n", gpus=8, cpus=96)])
    jobs = [*many("A", 9, gpus=1, cpus=20), *many("B", 9, workers=2, gpus=1, cpus=2)]
    seen = schedule("drf", jobs, cluster=cluster)
    assert picks(seen) == "A B A B A A"
    # One GPU was left when B was due for its third gang of two: B gets none of it.
    assert held(seen) == {"A": 4, "B": 2}
    why = seen.first[2].waiting
    assert why["A04-0"].startswith("tenant A has 83% of all CPUs")
    assert why["B02-0"].startswith("tenant B has 50% of all GPUs")


def test_without_accounted_cpus_only_gpus_count(schedule, many):
    jobs = [*many("A", 9, gpus=1, cpus=20), *many("B", 9, workers=2, gpus=1, cpus=2)]
    seen = schedule("drf", jobs, 8)
    assert picks(seen) == "A B A A B A"


def test_a_third_gang_of_two_does_not_get_the_one_gpu_that_is_left(schedule, many):
    seen = schedule("drf", [*many("A", 1, workers=3, gpus=1), *many("B", 3, workers=2, gpus=1)], 8)
    assert held(seen) == {"A": 1, "B": 2}
    assert seen.first[2].waiting == {
        "B02-0": "tenant B has 50% of all GPUs at weight 1; this gang needs 2 GPUs, 1 GPU is free"
    }


def test_shares_are_in_proportion_to_weights(schedule, many):
    tenants = {"A": Tenant(weight=3.0), "B": Tenant(weight=1.0)}
    seen = schedule("drf", [*many("A", 9, gpus=1), *many("B", 9, gpus=1)], 8, tenants=tenants)
    assert held(seen) == {"A": 6, "B": 2}


def test_a_tenant_serves_its_own_jobs_by_priority_and_arrival(schedule, job):
    jobs = [job("x", 1, 10, tenant="A"), job("y", 1, 10, tenant="A", priority=1), job("z", 1, 10, tenant="B")]
    # Between decisions both hold nothing, and A has the smaller name: shares are those of the moment.
    assert schedule("drf", jobs, 1).starts == {"y": 0, "x": 10, "z": 20}


def test_without_preemption_a_newcomer_waits_for_somebody_to_finish(schedule, many):
    seen = schedule("drf", [*many("A", 4, 100, gpus=1), *many("B", 2, 10, gpus=1, at=5.0)], 4)
    assert seen.starts["B00-5"] == 100
    assert all(len(runs) == 1 for runs in seen.runs.values())


def test_with_preemption_a_newcomer_gets_its_fair_share_and_no_more(schedule, many):
    seen = schedule("drf(preempt=true)", [*many("A", 4, 100, gpus=1), *many("B", 4, 50, gpus=1, at=5.0)], 4)
    assert held(seen, 5.0) == {"A": 2, "B": 2}
    # The youngest gangs of A gave way and resumed, keeping their progress, when B's were done.
    assert seen.runs["A00-0"] == [(0, 100)]
    assert seen.runs["A03-0"][0] == (0, 5)
    assert sum(end - start for start, end in seen.runs["A03-0"]) == pytest.approx(100)


def test_preemption_never_takes_a_tenant_below_its_own_fair_share(schedule, many):
    # Fair is 2 GPUs each; A holds one gang of three, and stopping it would leave A with nothing.
    jobs = [*many("A", 1, 100, workers=3, gpus=1), *many("B", 1, 10, workers=2, gpus=1, at=5.0)]
    seen = schedule("drf(preempt=true)", jobs, 4)
    assert seen.runs["A00-0"] == [(0, 100)]


def test_nobody_is_stopped_in_vain(schedule, many):
    # Fair is 4 GPUs each: A can spare three of its seven, and B's gang of five needs four more than are free.
    jobs = [*many("A", 7, 100, gpus=1), *many("B", 1, 10, workers=5, gpus=1, at=5.0)]
    seen = schedule("drf(preempt=true)", jobs, 8)
    assert all(runs == [(0, 100)] for name, runs in seen.runs.items() if name.startswith("A"))


def test_a_job_that_cannot_be_suspended_is_not_reclaimed(schedule, job):
    jobs = [*(job(f"A{i}", 1, 100, tenant="A", preemptible=False) for i in range(4))]
    seen = schedule("drf(preempt=true)", [*jobs, job("B", 1, 10, 5.0, tenant="B")])
    assert seen.starts["B"] == 100


def test_a_bad_option_is_refused_by_name():
    with pytest.raises(OptionError, match="option preempt is true or false, not 'perhaps'"):
        make_policy("drf(preempt=perhaps)")
