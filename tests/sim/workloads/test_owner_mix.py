"""What owners ask for, drawn for any workload: exact shares in the long run, and nothing else changes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from elastane.errors import ElastaneError
from elastane.jobs.kinds import Kind
from elastane.sim.workloads import parse_workload
from elastane.sim.workloads.owner_mix import OwnerMix, mixed
from elastane.sim.workloads.trace import TraceJob

PLAIN = ["pollux:6,jobs=40", "optimus:3", "philly:2,days=1", "synth:philly,jobs=40"]
EVERYTHING = "guaranteed=0.2,opportunistic=0.3,rigid=0.5,tenants=3,priorities=4,weights=2,deadlines=0.5"


def bare(job: TraceJob) -> TraceJob:
    """Without what its owner asks for."""
    plain = TraceJob("", 0.0)
    return replace(
        job,
        klass=plain.klass,
        kind=None,
        tenant=plain.tenant,
        priority=0,
        weight=1.0,
        deadline_s=None,
    )


@pytest.mark.parametrize("text", PLAIN)
def test_the_jobs_themselves_are_the_same_and_so_are_two_readings(text: str) -> None:
    without, mix = parse_workload(text), parse_workload(f"{text},{EVERYTHING}")
    assert tuple(bare(job) for job in mix.jobs) == without.jobs
    assert mix.jobs != without.jobs
    assert parse_workload(f"{text},{EVERYTHING}") == mix
    assert mix.source == f"{without.source},{EVERYTHING}"
    assert any("what owners ask for was drawn" in note for note in mix.notes)


def test_a_workload_of_which_nothing_is_asked_is_not_touched() -> None:
    trace = parse_workload("pollux:6,jobs=10")
    assert mixed(trace, OwnerMix(), 6) is trace


def test_shares_are_what_was_asked_for() -> None:
    jobs = parse_workload(f"synth:philly,jobs=6000,{EVERYTHING}").jobs
    classes, kinds = Counter(job.klass for job in jobs), Counter(job.kind for job in jobs)
    assert classes["guaranteed"] == pytest.approx(1200, abs=120)
    assert classes["opportunistic"] == pytest.approx(1800, abs=120)
    assert set(kinds) == {Kind.RIGID, None}
    assert kinds[Kind.RIGID] == pytest.approx(3000, abs=150)
    tenants = Counter(job.tenant for job in jobs)
    assert tenants["t1"] == pytest.approx(6000 * 6 / 11, abs=150)
    assert tenants["t3"] == pytest.approx(6000 * 2 / 11, abs=150)
    assert set(Counter(job.priority for job in jobs)) == {0, 1, 2, 3}
    assert all(0.5 <= job.weight <= 2.0 for job in jobs)
    timed = [job for job in jobs if job.deadline_s is not None]
    assert len(timed) == pytest.approx(3000, abs=150)
    slacks = [(job.deadline_s - job.submit_s) / job.duration_s for job in timed]  # type: ignore[operator]
    assert 1.5 <= min(slacks) < 1.7
    assert 4.8 < max(slacks) <= 5.0


def test_deadlines_of_jobs_without_a_duration_are_hours_away() -> None:
    jobs = parse_workload("pollux:6,deadlines=1").jobs
    hours = [(job.deadline_s - job.submit_s) / 3600.0 for job in jobs if job.deadline_s is not None]
    assert len(hours) == len(jobs)
    assert min(hours) >= 1.0
    assert max(hours) <= 24.0


def test_one_more_key_changes_nothing_in_what_the_others_draw() -> None:
    one = parse_workload("pollux:6,guaranteed=0.2").jobs
    both = parse_workload("pollux:6,guaranteed=0.2,command=0.5,tenants=9").jobs
    assert [job.klass for job in one] == [job.klass for job in both]
    assert {job.kind for job in both} == {None, Kind.COMMAND}


def test_a_file_can_be_given_a_mix_and_its_seed_is_the_runs(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    rows = "".join(f"j{number},{number},1,60\n" for number in range(200))
    path.write_text(f"id,submit_s,gpus,duration_s\n{rows}")
    first, again, other = (parse_workload(f"{path},guaranteed=0.5", seed=seed).jobs for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert Counter(job.klass for job in first)["guaranteed"] == pytest.approx(100, abs=30)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ("guaranteed=1.2", "guaranteed=1.2: is a fraction"),
        ("guaranteed=nan", "guaranteed=nan: is a fraction"),
        ("opportunistic=-0.1", "opportunistic=-0.1: is a fraction"),
        ("guaranteed=0.6,opportunistic=0.6", "guaranteed + opportunistic is 1.2"),
        ("rigid=0.6,command=0.6", "rigid + command is 1.2"),
        ("deadlines=2", "deadlines=2: is a fraction"),
        ("tenants=0", "tenants=0: give 1 to"),
        ("priorities=0", "priorities=0: give 1 to"),
        ("weights=0.5", "weights=0.5: give 1 to"),
        ("weights=heavy", "weights=heavy is not a proper value"),
        ("guarantee=0.1", "unknown key 'guarantee'; did you mean 'guaranteed'"),
    ],
)
def test_a_wrong_key_or_value_is_refused_by_name(keys: str, says: str) -> None:
    with pytest.raises(ElastaneError) as refused:
        parse_workload(f"pollux:6,{keys}")
    assert str(refused.value).startswith(f"workload 'pollux:6,{keys}': ")
    assert says in str(refused.value)
