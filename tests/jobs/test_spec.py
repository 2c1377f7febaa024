from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from elastane.jobs import JobClass, JobSpec, Kind, SpecError, parse_spec
from elastane.jobs.sections import locate
from elastane.resources import Resources


def spec(**fields: Any) -> JobSpec:
    return parse_spec({"command": "python train.py", **fields})


def complaint(**fields: Any) -> str:
    with pytest.raises(SpecError) as caught:
        spec(**fields)
    return str(caught.value)


def sections(model: type[BaseModel] = JobSpec) -> list[type[BaseModel]]:
    inner = [section for name in model.model_fields for section in locate((name,), model).inside]
    return [model, *(deep for section in inner for deep in sections(section))]


def test_a_command_is_enough() -> None:
    job = spec()
    assert (job.name, job.kind, job.klass, job.tenant) == ("train", Kind.AUTO, JobClass.NORMAL, "default")
    assert (job.workers.min, job.max_workers, job.worker) == (1, None, Resources(gpus=1.0))
    assert (job.servers, job.deadline_s(0.0), job.value) == (None, None, None)


@pytest.mark.parametrize("section", sections(), ids=lambda section: section.__name__)
def test_every_field_is_documented(section: type[BaseModel]) -> None:
    assert [name for name, info in section.model_fields.items() if not info.description] == []


def test_the_schema_for_editors_and_for_the_api_can_be_made() -> None:
    properties = JobSpec.model_json_schema()["properties"]
    assert "class" in properties
    assert "klass" not in properties


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"worker": 3}, "unknown field 'worker' in job spec; did you mean 'workers'?"),
        ({"klass": "normal"}, "unknown field 'klass' in job spec; did you mean 'class'?"),
        ({"workers": {"mx": 3}}, "unknown field 'mx' in workers; did you mean 'max'?"),
        (
            {"servers": {"resources": {"gpu": 1}}},
            "unknown field 'gpu' in servers.resources; did you mean 'gpus'?",
        ),
        ({"data": {"zone": "a", "gb": 1, "qqqq": 2}}, "unknown field 'qqqq' in data; known are zone, gb"),
    ],
)
def test_unknown_fields_are_refused_with_the_nearest_name(fields: dict[str, Any], message: str) -> None:
    assert complaint(**fields) == message


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"workers": {"min": 0}}, "workers.min: got 0; expected 1 or more"),
        ({"workers": "four"}, "workers: got 'four'; expected a whole number, or a section with min and max"),
        ({"workers": True}, "workers: got True; expected a whole number, or a section with min and max"),
        ({"priority": "high"}, "priority: got 'high'; expected a whole number"),
        ({"preemptible": "yes"}, "preemptible: got 'yes'; expected true or false"),
        ({"weight": float("nan")}, "weight: got nan; expected a finite number"),
        ({"weight": 0}, "weight: got 0; expected more than 0"),
        ({"epochs": 10**9}, "epochs: got 1000000000; expected 1,000,000 or less"),
        ({"resources": {"memory": "16GX"}}, "resources.memory: got '16GX'; expected gigabytes or a size"),
        ({"accelerators": ["t4", 3]}, "accelerators.1: got 3; expected text"),
        ({"name": "../etc"}, "name: got '../etc'; expected letters, digits"),
        ({"name": "a\n"}, "name: got 'a\\n'; expected letters, digits"),
        ({"env": {"A B": "x"}}, "env.A B: got 'A B'; expected a variable name"),
        ({"env": {"LR": 1.10}}, "env.LR: got 1.1; expected text"),
        ({"class": "guaranted"}, "did you mean 'guaranteed'?"),
        ({"target": {"metric": "loss"}}, "target.value is missing: Value to reach."),
        ({"deadline": "tomorrow"}, "deadline: got 'tomorrow'; expected seconds or a duration"),
        ({"deadline": "2030-01-31T18:00"}, "or a time with its zone"),
        ({"deadline": 1e12}, "deadline: got 1000000000000.0; expected a deadline within a century"),
    ],
)
def test_a_wrong_value_is_named_with_its_path_and_what_is_expected(
    fields: dict[str, Any], message: str
) -> None:
    assert message in complaint(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"workers": {"min": 4, "max": 2}}, "workers: max (2) is below min (4)"),
        (
            {"kind": "rigid", "workers": {"min": 1, "max": 2}},
            "a rigid job has one size, not workers from 1 to 2",
        ),
        ({"batch": {"size": 64, "max": 32}}, "batch: max (32) is below size (64)"),
        (
            {"batch": {"size": 64, "max": 128, "fixed": True}},
            "batch: a fixed batch of 64 cannot grow to max (128)",
        ),
        (
            {"batch": {"size": 64, "per_gpu_min": 9, "per_gpu_max": 8}},
            "per_gpu_max (8) is below per_gpu_min (9)",
        ),
        ({"resources": {"gpus": 2}, "workers": {"resources": {"gpus": 4}}}, "mean the same; keep one of them"),
    ],
)
def test_contradictions_are_refused(fields: dict[str, Any], message: str) -> None:
    assert message in complaint(**fields)


def test_all_mistakes_come_at_once_one_per_line() -> None:
    lines = complaint(worker=1, epochs=0, batch={"sise": 3}).splitlines()
    assert len(lines) == 4  # batch.size is missing as well


def test_a_single_number_stands_for_a_section() -> None:
    job = spec(workers=4, batch=128, servers=2, accelerators="t4")
    assert (job.workers.min, job.max_workers) == (4, 4)
    assert job.batch is not None
    assert (job.batch.size, job.accelerators) == (128, ("t4",))
    assert job.servers is not None
    assert (job.servers.min, job.servers.resources.cpus) == (2, 1.0)


def test_a_rigid_job_has_as_many_workers_at_most_as_at_least() -> None:
    assert spec(kind="rigid", workers={"min": 3}).max_workers == 3


def test_the_needs_of_a_worker_may_stand_in_either_place() -> None:
    needs = {"gpus": 2, "cpus": 8, "memory": "64GB", "bandwidth": "10Gbps"}
    assert (
        spec(resources=needs).worker
        == spec(workers={"resources": needs}).worker
        == Resources(2.0, 8.0, 64.0, 10.0)
    )


def test_a_deadline_is_relative_to_submission_or_absolute() -> None:
    moment = datetime(2030, 1, 31, 18, tzinfo=UTC)
    assert spec(deadline="2h").deadline_s(100.0) == 7300.0
    assert spec(deadline="2030-01-31T20:00+02:00").deadline_s(100.0) == moment.timestamp()
    assert spec(deadline=moment).deadline == moment


@pytest.mark.parametrize(
    ("target", "reached", "missed"),
    [
        ({"metric": "val_loss", "value": 0.5}, 0.4, 0.6),
        ({"metric": "accuracy", "value": 0.9}, 0.95, 0.85),
        ({"metric": "score", "value": 3.0, "direction": "at-most"}, 2.0, 4.0),
    ],
)
def test_a_target_knows_its_better_side(target: dict[str, Any], reached: float, missed: float) -> None:
    goal = spec(target=target).target
    assert goal is not None
    assert goal.reached(reached)
    assert not goal.reached(missed)


def test_whole_numbers_in_the_environment_become_text() -> None:
    assert spec(env={"PORT": 8080, "EMPTY": "", "A": "b c"}).env == {"PORT": "8080", "EMPTY": "", "A": "b c"}


@pytest.mark.parametrize(("kind", "words"), [("command", "a command"), ("rigid", "a rigid job")])
def test_kinds_of_one_size_are_refused_a_range(kind: str, words: str) -> None:
    assert spec(kind=kind, workers=3).max_workers == 3
    assert spec(kind=kind, workers={"min": 3}).max_workers == 3
    with pytest.raises(SpecError, match=f"{words} has one size, not workers from 1 to 2"):
        spec(kind=kind, workers={"min": 1, "max": 2})
