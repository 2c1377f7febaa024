from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.jobs import SpecError, parse_spec
from elastane.jobs.command import name_of


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("python train.py --lr 0.1", ("python", "train.py", "--lr", "0.1")),
        ("python 'my train.py' --note ''", ("python", "my train.py", "--note", "")),
        ("torchrun \\\n  train.py \\\n  --epochs 3\n", ("torchrun", "train.py", "--epochs", "3")),
        (["bash", "-c", "a && b"], ("bash", "-c", "a && b")),
    ],
)
def test_a_command_becomes_words(written: object, words: tuple[str, ...]) -> None:
    assert parse_spec({"command": written}).command == words


@pytest.mark.parametrize(
    "line", ["make && ./run", "cat x | python y", "python a.py > log", "pip install x\npython y"]
)
def test_shell_syntax_is_refused_because_no_shell_will_see_it(line: str) -> None:
    with pytest.raises(SpecError, match="without shell syntax"):
        parse_spec({"command": line})


@pytest.mark.parametrize(
    "written", ["", "  ", [], [""], 3, None, {"a": 1}, [1], "python 'x", "a\0b", ["\ud800"]]
)
def test_what_is_no_command_is_refused(written: object) -> None:
    with pytest.raises(SpecError, match="command"):
        parse_spec({"command": written})


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python nets/train.py --lr 0.1", "train"),
        ("torchrun --nproc-per-node 2 train.py", "train"),
        ("python3.11 -m nets.bert", "nets.bert"),
        ("/usr/bin/sleep 10", "sleep"),
        ("bash", "job"),
        ("./---", "job"),
    ],
)
def test_a_job_without_a_name_is_named_after_its_script(command: str, name: str) -> None:
    assert parse_spec({"command": command}).name == name


@given(st.lists(st.text()))
def test_every_derived_name_is_a_valid_name(words: list[str]) -> None:
    assert parse_spec({"command": "x", "name": name_of(words)})
