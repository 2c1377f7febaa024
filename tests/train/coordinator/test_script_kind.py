"""The kind of a job is read off its script, and the owner may overrule it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elastane.train.coordinator.script_kind import JobKind, choose_kind, kind_of, source_of_module, uses
from elastane.train.errors import TrainError

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("import elastane.train as et", JobKind.ADAPTIVE),
        ("from elastane import train", JobKind.ADAPTIVE),
        ("from elastane.train import init", JobKind.ADAPTIVE),
        ("import elastane.compat.horovod as hvd", JobKind.ADAPTIVE),
        ("import torch.distributed as dist", JobKind.RESIZABLE),
        ("from torch import distributed", JobKind.RESIZABLE),
        ("import torch\ntorch.distributed.init_process_group('gloo')", JobKind.RESIZABLE),
        ("from mine import init_process_group", JobKind.RESIZABLE),
        ("import mine\nmine.init_process_group()", JobKind.RESIZABLE),
        ("import torch.distributed\ndef main():\n    import elastane.train", JobKind.ADAPTIVE),
        ("import torch", JobKind.COMMAND),
        ("import elastane.sim", JobKind.COMMAND),
        ("import elastane.trainer", JobKind.COMMAND),
        ("# import elastane.train\ntext = 'torch.distributed'", JobKind.COMMAND),
        ("this is no Python", JobKind.COMMAND),
        ("", JobKind.COMMAND),
    ],
)
def test_what_a_script_uses_says_what_it_is(source: str, kind: JobKind) -> None:
    assert kind_of(source.encode()).kind is kind


def test_the_examples_are_what_they_say() -> None:
    kinds = {name: choose_kind("auto", EXAMPLES / name).kind for name in ("torchrun_digits.py", "command.py")}
    assert kinds == {"torchrun_digits.py": JobKind.RESIZABLE, "command.py": JobKind.COMMAND}


def test_the_reason_names_the_line() -> None:
    assert kind_of(b"import os\nimport torch.distributed\n").reason == "line 2 uses torch.distributed"


def test_the_owner_knows_best() -> None:
    assert choose_kind("command", EXAMPLES / "torchrun_digits.py").kind is JobKind.COMMAND


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(TrainError, match=r"--kind: there is no 'rigit'.*command"):
        choose_kind("rigit", None)


def test_modules_and_packages_are_found_without_importing_them(tmp_path: Path) -> None:
    package = tmp_path / "some_package" / "inner"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("raise AssertionError('imported')")
    (package / "__main__.py").write_text("")
    (package / "job.py").write_text("")
    assert source_of_module("some_package.inner.job", tmp_path) == package / "job.py"
    assert source_of_module("some_package.inner", tmp_path) == package / "__main__.py"
    assert source_of_module("some_package", tmp_path) is None
    assert source_of_module("some_package.inner.job.more", tmp_path) is None
    assert source_of_module("no_such_package.job", tmp_path) is None
    assert choose_kind("auto", None).kind is JobKind.COMMAND


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (b"-" * 200_000 + b"1\n", "nested too deeply"),
        (b"a" + b".b" * 50_000 + b"\n", "nested too deeply"),
        (b"(" * 5_000, "not valid Python"),
    ],
)
def test_a_source_that_exhausts_the_parser_is_a_command(tmp_path: Path, source: bytes, why: str) -> None:
    script = tmp_path / "train.py"
    script.write_bytes(source)
    choice = choose_kind("auto", script)
    assert choice.kind is JobKind.COMMAND
    assert why in choice.reason
    assert not uses(script, "torch")


def test_a_long_chain_of_names_is_looked_at_in_pieces() -> None:
    assert kind_of(b"a" + b".b" * 300 + b".torch.distributed" + b".c" * 300).kind is JobKind.RESIZABLE
    assert kind_of(b"a" + b".b" * 300).kind is JobKind.COMMAND


def test_a_script_that_cannot_be_read_is_a_command_and_says_why(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    assert (
        choose_kind("auto", tmp_path / "pipe.py").reason == "its source was not read: it is not a regular file"
    )
