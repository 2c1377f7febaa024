"""Elastane's own policy: prices of work, what they do to a division, and what holds it back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from elastane.models.estimate import Estimate
from elastane.policies.elastane import Elastane
from elastane.policies.elastane.job_estimates import Belief, look, sizes_up_to
from elastane.policies.elastane.shadow_prices import shadow_prices
from elastane.policies.elastane.waiting_bound import Account, Accounts, Guarantees
from elastane.policies.lowering import lower
from elastane.policies.options import OptionError
from elastane.policies.view import JobView, View
from elastane.sim.metrics import summarise
from elastane.sim.run import simulate
from elastane.sim.spec import RunSpec
from helpers.pollux_views import job, view

SEEN = Elastane.needs.info


def sized(made: JobView, left: float | None) -> JobView:
    remaining = None if left is None else Estimate(left)
    return replace(made, facts=replace(made.facts, remaining=remaining), visible=SEEN)


def counts(seen: View) -> dict[str, int]:
    grants = lower(Elastane().decide(seen), seen).grants
    return {job_id: grant.workers for job_id, grant in grants.items()}


def prices(q: float, jobs: int, gpus: int, crowd: float = 0.0) -> np.ndarray:
    """Of jobs that all speed up by k^q, given the last to finish first."""
    sizes = sizes_up_to(gpus)
    curves = np.tile(sizes.astype(float) ** q, (jobs, 1))
    return shadow_prices(curves, sizes, np.arange(jobs), np.ones(jobs), float(gpus), crowd)


@pytest.mark.parametrize("q", [0.5, 0.8])
@pytest.mark.parametrize("jobs", [1, 2, 6])
def test_equal_power_laws_give_the_published_weights(q: float, jobs: int) -> None:
    """heSRPT: λ_i = N^−q (i^(1/(1−q)) − (i−1)^(1/(1−q)))^(1−q), i = 1 for the last to finish."""
    i = np.arange(1, jobs + 1)
    power = 1.0 / (1.0 - q)
    expected = 64.0**-q * (i**power - (i - 1.0) ** power) ** (1.0 - q)
    assert prices(q, jobs, 64) == pytest.approx(expected, rel=0.03)


def test_many_jobs_share_prices_in_groups_and_still_rise() -> None:
    found = prices(0.8, 500, 64)
    assert np.all(np.diff(found) >= -1e-12)
    assert found[-1] > 10.0 * found[0]


def test_jobs_to_come_make_long_ones_worth_more() -> None:
    assert prices(0.8, 3, 64, crowd=5.0)[0] > prices(0.8, 3, 64)[0]


def test_a_job_that_cannot_use_more_is_worth_more_than_one_that_can() -> None:
    """The last to finish, alone: λ = 1 ÷ s(N), so work that no number of GPUs hastens is dear."""
    sizes = sizes_up_to(8)
    stuck = np.ones((1, len(sizes)))
    assert shadow_prices(stuck, sizes, np.arange(1), np.ones(1), 8.0)[0] == pytest.approx(1.0, rel=0.01)


def test_the_job_that_is_nearly_done_gets_more() -> None:
    seen = replace(view([sized(job("short"), 100.0), sized(job("long"), 1e6)], [8]), visible=SEEN)
    given = counts(seen)
    assert given["short"] > given.get("long", 0)
    assert sum(given.values()) <= 8


def test_alone_a_job_gets_all_that_helps() -> None:
    assert counts(replace(view([sized(job("only", 0.0), 1e6)], [4, 4]), visible=SEEN)) == {"only": 8}


def test_a_job_that_is_about_to_end_is_not_moved() -> None:
    """30 s of restart for a job with 20 s to go would only delay it."""
    held = replace(sized(job("a", 0.0, [("n0", 1)]), 20.0), restart_s=30.0)
    assert counts(replace(view([held], [4]), visible=SEEN)) == {"a": 1}


def two_alike(**differences: object) -> dict[str, int]:
    """What two equal jobs get of four GPUs when one of them differs in something."""
    one, other = sized(job("a"), 5e4), replace(sized(job("b"), 5e4), **differences)
    return counts(replace(view([one, other], [4]), visible=SEEN))


@pytest.mark.parametrize("differences", [{"weight": 8.0}, {"priority": 3}, {"klass": "guaranteed"}])
def test_what_matters_more_gets_more(differences: dict[str, object]) -> None:
    given = two_alike(**differences)
    assert given["b"] > given.get("a", 0)


def test_a_deadline_that_comes_near_goes_first() -> None:
    made = sized(job("b"), 5e4)
    left_s = 5e4 / float(made.facts.speed.rates(np.array([1]), np.array([3]))[0])  # with three GPUs
    given = two_alike(facts=replace(made.facts, deadline_s=view([], [4]).now_s + left_s + 40.0))
    assert given["b"] >= 3


def test_a_deadline_that_was_missed_gives_no_right_of_way_any_more() -> None:
    policy, made = Elastane(), replace(sized(job("b"), 5e4), submit_s=3500.0)
    others = [replace(sized(job(f"a{i}"), 1e3), submit_s=3500.0) for i in range(4)]
    late, gone = (replace(made, facts=replace(made.facts, deadline_s=3600.0 + s)) for s in (1.0, -1.0))
    before = replace(view([late, *others], [4]), visible=SEEN)
    plan = policy.decide(before)
    assert plan.memory["fair"]["b"][-1] is True
    after = replace(view([gone, *others], [4], memory=plan.memory), visible=SEEN)
    assert lower(policy.decide(after), after).grants.get("b") is None


def test_unknown_work_is_no_obstacle() -> None:
    seen = replace(view([sized(job("a"), None), sized(job("b"), None)], [2]), visible=SEEN)
    assert sum(counts(seen).values()) == 2


@pytest.mark.parametrize(
    "options", [{"horizon_s": 0.0}, {"explore": 0.5}, {"first": 0}, {"crowd": -1.0}, {"bound": 0.5}]
)
def test_impossible_options_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="elastane"):
        Elastane(**options)


def test_it_beats_pollux_on_a_generated_workload() -> None:
    ours, theirs = (
        summarise(simulate(RunSpec("pollux:11,jobs=60", policy, cluster="6x4:t4"))).mean_jct_s
        for policy in ("elastane", "pollux")
    )
    assert ours is not None
    assert theirs is not None
    assert ours < theirs


def test_what_is_owed_before_a_speed_is_known_is_not_owed_to_the_end() -> None:
    """Or one hasty arrival would go before everybody for as long as it lasts."""
    known = sized(job("known"), 1e6)
    new = replace(known, id="new", facts=replace(known.facts, speed=None))
    jobs = (known, new)
    outlook = look(jobs, replace(view(jobs, [4]), visible=SEEN), Belief(0.8, np.full(2, 0.8), 4))
    accounts = Accounts(0.0, {each.id: Account(1e6) for each in jobs})
    after = accounts.owing(Guarantees(np.array([1, 1])), outlook).jobs
    assert after["known"].owed
    assert not after["new"].owed
