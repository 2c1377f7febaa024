"""SRTF and SRSF, on schedules computed by hand."""

from __future__ import annotations

import pytest

from elastane.policies.options import OptionError
from elastane.policies.registry import make_policy
from elastane.simcore.physics import Physics


@pytest.fixture
def wide_and_narrow(job):
    return [job("J0", 4, 10), *(job(f"J{i}", 1, 20) for i in range(1, 5))]


def test_time_favours_the_wide_short_job_and_service_the_narrow_ones(schedule, wide_and_narrow):
    assert schedule("srtf", wide_and_narrow).finishes == [10, 30, 30, 30, 30]
    assert schedule("srsf", wide_and_narrow).finishes == [30, 20, 20, 20, 20]


def test_with_gangs_least_service_is_not_always_best(schedule, job):
    jobs = [job("J1", 2, 2), job("J2", 1, 8), job("J3", 2, 6)]
    assert schedule("srsf", jobs, 2).finishes == [2, 10, 16]
    assert schedule("srtf", jobs, 2).finishes == [2, 16, 8]


@pytest.mark.parametrize("policy", ["srtf", "srsf"])
def test_progress_survives_preemption(schedule, job, policy):
    seen = schedule(policy, [job("J1", 4, 100), job("J2", 4, 10, 30.0)])
    assert seen.runs == {"J1": [(0, 30), (40, 110)], "J2": [(30, 40)]}
    view, _, _ = seen.at(40)
    assert view.jobs["J1"].remaining.mean == pytest.approx(70)


def test_among_equals_the_running_job_stays(schedule, job):
    # At 10 the newcomer has exactly as much left as the running job, and a name that sorts before it.
    assert schedule("srtf", [job("b", 4, 20), job("a", 4, 10, 10.0)]).runs["b"] == [(0, 20)]


def test_hysteresis_swaps_only_where_it_pays_for_the_restart(schedule, job):
    def runs(policy, seconds):
        jobs = [job("J1", 4, 100), job("J2", 4, seconds, 10.0)]
        return schedule(policy, jobs, physics=Physics(restart_s=20.0, first_start_s=0.0)).runs

    # At 10 J1 has 90 s left.  A job of 75 s gains 15 s and would cost a restart of 20 s.
    assert runs("srtf", 75) == {"J1": [(0, 10), (85, 195)], "J2": [(10, 85)]}
    assert runs("srtf(min_gain=1)", 75) == {"J1": [(0, 100)], "J2": [(100, 175)]}
    assert runs("srsf(min_gain=1)", 75) == {"J1": [(0, 100)], "J2": [(100, 175)]}
    assert runs("srtf(min_gain=1)", 65) == {"J1": [(0, 10), (75, 185)], "J2": [(10, 75)]}


def test_waiting_jobs_are_told_how_much_they_have_left(schedule, wide_and_narrow):
    why = schedule("srsf", wide_and_narrow).first[2].waiting
    assert why == {"J0": "number 5 with 40 GPU s left; needs 4 GPUs, 0 are left by shorter jobs"}
    why = schedule("srtf", wide_and_narrow).first[2].waiting
    assert why["J3"] == "number 4 with 20 s left; needs 1 GPU, 0 are left by shorter jobs"


@pytest.mark.parametrize("name", ["srtf", "srsf"])
def test_they_are_labelled_oracles_and_refuse_bad_options(name):
    assert make_policy(name).needs.oracle
    assert "oracle" in make_policy(name).title
    with pytest.raises(OptionError, match=f"{name}: min_gain must be 0 or more"):
        make_policy(f"{name}(min_gain=-1)")
