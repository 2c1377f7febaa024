from __future__ import annotations

import json
import string
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elastane.errors import ElastaneError
from elastane.jobs import JobSpec, SpecError, dump_json, dump_yaml, load_spec, parse_spec

SPEC = """\
name: bert
command: python train.py --lr 1e-3
kind: adaptive
workers: {min: 1, max: 8}
batch: {size: 128, max: 4096, per_gpu_max: 256}
epochs: 30
target: {metric: val_loss, value: 1e-3}
resources: {gpus: 1, memory: 16GB}
class: guaranteed
deadline: 12h
value: {shape: linear, worth: 100, until: 6h, per_hour: 10}
data: {zone: east, gb: 1.2TB}
env: {MODE: 0755, TIME: 1:30, DAY: 2030-01-31, SMALL: "1e-3"}
"""


def test_a_full_spec_is_read_from_text_and_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "bert.yaml"
    path.write_text(SPEC)
    job = load_spec(SPEC)
    assert load_spec(path) == load_spec(str(path)) == job
    assert (job.name, job.deadline, job.command[-1]) == ("bert", 43200.0, "1e-3")


def test_yaml_changes_nothing_that_looks_like_something_else() -> None:
    assert load_spec(SPEC).env == {"MODE": "0755", "TIME": "1:30", "DAY": "2030-01-31", "SMALL": "1e-3"}


def test_numbers_may_be_written_as_in_python() -> None:
    target = load_spec(SPEC).target
    assert target is not None
    assert target.value == 0.001


def test_mistakes_in_a_file_begin_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("command: x\nworker: 2\nepochs: 0\n")
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert str(caught.value).splitlines() == [
        f"{path}: epochs: got 0; expected 1 or more",
        f"{path}: unknown field 'worker' in job spec; did you mean 'workers'?",
    ]
    assert [problem.path for problem in caught.value.problems] == ["epochs", "worker"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("command: [a\nname: b", ":2:5: not valid YAML"),
        ("command: a\nname: b\ncommand: c", ":3:1: not valid YAML: 'command' is given more than once"),
        ('{"command": "a", "command": "b"}', "'command' is given more than once"),
        (
            "command: !!python/object/apply:os.system [ls]\n",
            "not valid YAML: could not determine a constructor",
        ),
        ("command: a\n---\ncommand: b\n", "not valid YAML"),
        ("{" * 5000, "nested too deeply"),
        ("epochs: " + "1" * 5000, "too many digits"),
        ("command: \x07", "not valid YAML: unacceptable character"),
        ("? [a]\n: b\n", "unhashable key"),
        ("\n", "got nothing; expected fields"),
        ("- a\n- b\n", "got ['a', 'b']; expected fields"),
        ("1: 2", "got 1; expected a field name"),
        ("command: a\nx: " + "y" * 1_000_000, "longer than 1,000,000 characters"),
    ],
)
def test_texts_that_are_no_spec_are_refused_with_their_place(text: str, message: str) -> None:
    with pytest.raises(ElastaneError) as caught:
        load_spec(text)
    assert message in str(caught.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    binary = tmp_path / "model.pt"
    binary.write_bytes(b"\x80\xff\x00")
    for path, reason in [
        (tmp_path / "none.yaml", "no such file"),
        (tmp_path, "is a directory"),
        (binary, "not a text file"),
        (Path("a\0b"), "null"),
    ]:
        with pytest.raises(ElastaneError, match=reason):
            load_spec(path)


def test_a_value_that_contains_itself_is_refused() -> None:
    with pytest.raises(SpecError):
        load_spec("&a {command: x, env: *a, workers: *a}\n")


_name = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
_text = st.text(max_size=20).filter(lambda text: "\0" not in text)
_count = st.integers(1, 1000)
_demand = st.fixed_dictionaries({"gpus": st.integers(0, 8)}, optional={"memory": st.floats(0, 1e4)})
_specs = st.fixed_dictionaries(
    {"command": st.lists(_text, min_size=1, max_size=4).filter(lambda words: words[0].strip() != "")},
    optional={
        "name": _name,
        "kind": st.sampled_from(["auto", "adaptive", "resizable"]),
        "workers": st.one_of(_count, st.fixed_dictionaries({"min": _count}, optional={"resources": _demand})),
        "servers": st.one_of(_count, st.fixed_dictionaries({}, optional={"synchronous": st.booleans()})),
        "batch": st.one_of(_count, st.fixed_dictionaries({"size": _count}, optional={"fixed": st.booleans()})),
        "epochs": _count,
        "target": st.fixed_dictionaries({"metric": _name, "value": st.floats(-1e9, 1e9)}),
        "accelerators": st.lists(_name, max_size=3),
        "class": st.sampled_from(["guaranteed", "normal", "opportunistic"]),
        "weight": st.floats(0.001, 1e6),
        "deadline": st.one_of(
            st.floats(0, 1e9), st.sampled_from(["90s", "1.5d", "2030-01-31T18:00:00.5-07:00"])
        ),
        "value": st.one_of(
            st.floats(0, 1e9),
            st.just({"shape": "step", "worth": 3, "until": "2h"}),
            st.just({"shape": "constant", "worth": 0}),
        ),
        "data": st.fixed_dictionaries({"zone": _name, "gb": st.floats(0, 1e6)}),
        "env": st.dictionaries(st.from_regex(r"[A-Z_][A-Z0-9_]{0,5}", fullmatch=True), _text, max_size=3),
        "workdir": _text.filter(bool),
    },
)


@given(_specs)
@example({"command": ["x"], "workers": {"min": 1, "resources": {"gpus": 4}}})
@example({"command": ["1e-3", "0755", "1:30", "yes", "~", "2030-01-31", "\x85", "\u2028", "é"]})
def test_a_spec_survives_yaml_and_json(fields: dict[str, Any]) -> None:
    job = parse_spec(fields)
    assert load_spec(dump_yaml(job)) == job
    assert load_spec(dump_json(job)) == job


_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
_known = st.sampled_from([info.alias or name for name, info in JobSpec.model_fields.items()])
_inner = st.sampled_from(
    ["min", "max", "resources", "size", "shape", "worth", "until", "metric", "value", "gpus"]
)


@given(st.dictionaries(_known, st.one_of(_json, st.dictionaries(_inner, _json, max_size=4)), max_size=6))
def test_no_input_crashes_and_whatever_is_accepted_survives_a_round_trip(fields: dict[str, Any]) -> None:
    try:
        job = parse_spec({"command": "x", **fields})
    except SpecError as error:
        refusal = error
    else:
        assert load_spec(dump_json(job)) == job
        return
    assert refusal.problems
    assert all(len(problem.text) < 1000 for problem in refusal.problems)


@given(st.text())
def test_no_text_crashes_the_reader(text: str) -> None:
    with suppress(ElastaneError):
        load_spec(text + "\n")


def test_a_stored_spec_is_complete_and_a_shown_one_short() -> None:
    job = parse_spec({"command": ["python", "train.py"]})
    assert set(json.loads(dump_json(job))) == {
        info.alias or name for name, info in JobSpec.model_fields.items()
    }
    assert dump_yaml(job) == "command:\n- python\n- train.py\nname: train\n"
    assert set(dump_yaml(job)) <= set(string.printable)
