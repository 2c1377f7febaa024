"""Past jobs in simulations: what is recorded, who is told what, and that nobody learns from themselves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from elastane.errors import ElastaneError
from elastane.models.estimate import Provenance
from elastane.models.history import Memory, load_pool, save_pool
from elastane.policies.registry import make_policy
from elastane.policies.view import Info
from elastane.sim.cache import _content_digest, cache_key
from elastane.sim.history import gathered, gathered_from_files, identity, recaller
from elastane.sim.report import to_json, without_timings
from elastane.sim.result import RunResult
from elastane.sim.run import prepare, simulate
from elastane.sim.serialize import result_from_plain, result_to_plain
from elastane.sim.spec import RunSpec
from elastane.sim.workloads.trace import Omission
from elastane.simcore.world import World

BEFORE = RunSpec("pollux:1,jobs=14", "elastane", cluster="4x4:t4")
AFTER = replace(BEFORE, workload="pollux:2,jobs=14")


@pytest.fixture(scope="module")
def before() -> RunResult:
    return simulate(BEFORE)


@pytest.fixture(scope="module")
def past(before: RunResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("history") / "past.json"
    save_pool(gathered([before]), file)
    return file


def told(spec: RunSpec, past: Path) -> tuple[World, dict[str, Memory | None]]:
    """A world in which every job has arrived, and what each was told."""
    cluster, arrivals, _ = prepare(spec)
    recall, _ = recaller(str(past))
    world = World(cluster, make_policy(spec.policy), arrivals, recall=recall)
    return world, {arrival.id: recall(arrival) for arrival in arrivals}


def test_every_finished_job_leaves_its_whole_work_and_what_it_measured(before: RunResult) -> None:
    _, arrivals, _ = prepare(BEFORE)
    whole = {arrival.id: arrival.behaviour.total_work for arrival in arrivals}
    for job in before.jobs:
        assert job.experience is not None
        assert job.experience.total_work == pytest.approx(whole[job.id])
        assert job.experience.signature.app == job.app
        assert job.experience.most_workers >= 1
        assert job.experience.noise[0].fraction == 0.0


def test_results_keep_experiences_on_their_way_through_files(before: RunResult) -> None:
    assert result_from_plain(json.loads(json.dumps(result_to_plain(before)))).jobs == before.jobs


def test_results_keep_which_notes_are_about_jobs_left_out(before: RunResult) -> None:
    noted = replace(before, notes=("a note", Omission("jobs too wide: 2")))
    back = result_from_plain(json.loads(json.dumps(result_to_plain(noted))))
    assert back.notes == noted.notes
    assert [isinstance(note, Omission) for note in back.notes] == [False, True]


def test_a_history_is_built_from_what_sim_wrote_and_from_histories(
    before: RunResult, past: Path, tmp_path: Path
) -> None:
    file = tmp_path / "result.json"
    file.write_text(json.dumps(to_json([before])))
    assert list(gathered_from_files([file])) == list(load_pool(past))
    assert len(gathered_from_files([past, file])) == len(before.jobs)


@pytest.mark.parametrize(
    ("text", "said"),
    [('{"a": 1}', "neither"), ('{"policies": {"fifo": {}}}', "tells nothing"), ("x", "not JSON")],
)
def test_other_files_are_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "file.json"
    file.write_text(text)
    with pytest.raises(ElastaneError, match=said):
        gathered_from_files([file])


def test_no_job_is_told_of_itself_at_any_load(past: Path, before: RunResult) -> None:
    pool = load_pool(past)
    apps = [job.app for job in before.jobs]
    _, memories = told(BEFORE, past)
    for job in before.jobs:
        memory = memories[job.id]
        others = apps.count(job.app) - 1
        assert (memory.neighbours if memory else 0) == others
    _, arrivals, _ = prepare(BEFORE)
    assert all(identity(arrival) in pool for arrival in arrivals)
    copy = replace(arrivals[0], id=f"{arrivals[0].id}~2")
    assert identity(copy) == identity(arrivals[0])


def test_jobs_of_another_workload_are_somebody_else(past: Path) -> None:
    pool = load_pool(past)
    _, arrivals, _ = prepare(AFTER)
    assert not any(identity(arrival) in pool for arrival in arrivals)


def test_speed_is_known_before_the_first_step(past: Path) -> None:
    _, memories = told(AFTER, past)
    cluster, arrivals, _ = prepare(AFTER)
    first = next(arrival for arrival in arrivals if memories[arrival.id])
    world = World(cluster, make_policy("elastane"), [first], recall=recaller(str(past))[0])
    world.run(until_s=first.submit_s + 1e-3)  # it has started, and has not trained yet
    job = world.view().jobs[first.id]
    assert world.jobs[first.id].done == 0.0
    assert job.speed is not None
    assert job.speed.source is Provenance.HISTORY
    memory = memories[first.id]
    assert memory is not None
    assert job.speed.max_profiled == memory.most_workers > 1
    truth = first.behaviour.oracle(0.0, first.behaviour.limits)[1]
    places = np.array([1, 1, 2]), np.array([1, 4, 8])
    assert job.speed.rates(*places) == pytest.approx(truth.rates(*places), rel=0.3)


def test_a_policy_that_does_not_ask_for_speed_is_told_nothing(past: Path) -> None:
    world, _ = told(replace(AFTER, policy="fifo"), past)
    world.run(until_s=1800.0)
    assert world.jobs
    assert all(run.memory is None for run in world.jobs.values())
    view = world.view()
    assert not view.visible & Info.SPEED


def test_work_left_comes_from_the_past_when_nobody_declared_it(past: Path) -> None:
    spec = replace(AFTER, declare="nothing")
    world, memories = told(spec, past)
    world.run(until_s=1800.0)
    views = world.view().jobs
    assert any(memories[i] for i in views)
    for job_id, job in views.items():
        run = world.jobs[job_id]
        if memories[job_id] is None:
            assert job.remaining is None
            continue
        assert job.remaining is not None
        assert job.remaining.source is Provenance.HISTORY
        true_left = run.arrival.behaviour.total_work - run.done
        assert abs(job.remaining.mean - true_left) <= 3.0 * job.remaining.std
    world, _ = told(AFTER, past)
    world.run(until_s=1800.0)
    declared = [job.remaining for job in world.view().jobs.values()]
    assert all(left is not None and left.source is Provenance.DECLARED for left in declared)


def test_runs_with_a_history_repeat_exactly_say_so_and_differ_from_those_without(past: Path) -> None:
    spec = replace(AFTER, history=str(past))
    one, two, without = simulate(spec), simulate(spec), simulate(AFTER)
    documents = [json.dumps(without_timings(to_json([r])), sort_keys=True) for r in (one, two)]
    assert documents[0] == documents[1]
    assert one.physics["history"] == str(past)
    assert any("past jobs" in note for note in one.notes)
    assert "history" not in without.physics
    assert [job.finish_s for job in one.jobs] != [job.finish_s for job in without.jobs]


def test_another_content_of_the_file_is_another_run(
    tmp_path: Path, before: RunResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / name for name in ("a.json", "b.json")]
    save_pool(gathered([before]), files[0])
    save_pool(list(gathered([before]))[:3], files[1])
    keys = []
    monkeypatch.chdir(tmp_path)
    for file in files:
        _content_digest.cache_clear()
        file.replace("past.json")
        keys.append(cache_key(replace(AFTER, history="past.json")))
    assert keys[0] != keys[1]
    assert cache_key(AFTER) not in keys


def test_a_missing_history_is_noticed_before_anything_runs() -> None:
    with pytest.raises(ElastaneError, match="No such file"):
        prepare(replace(AFTER, history="nowhere.json"))
