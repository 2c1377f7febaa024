"""Which interpreter runs a command and how elastic that makes it, by what whoever submits has found out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from elastane.engines.contract import Examined
from elastane.engines.local import command
from elastane.engines.local.command import runnable
from elastane.engines.local.inspect_command import Examiner
from elastane.jobs.parts import Interpreter

ADAPTIVE, MEETING, PLAIN = "import elastane.train as et\n", "import torch.distributed\n", "print(1)\n"


@pytest.fixture
def other(tmp_path: Path) -> str:
    """The interpreter of another environment."""
    return _python(tmp_path / "other", environment=True)


def _python(folder: Path, *, environment: bool) -> str:
    path = folder / "bin" / "python"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    if environment:
        (folder / "pyvenv.cfg").touch()
    return str(path)


def look(tmp_path: Path, text: str, *command: str, python: Interpreter | None, kind: str = "auto") -> Examined:
    (tmp_path / "train.py").write_text(text)
    words = command or ("python", "train.py")
    return Examiner().examine(kind, words, str(tmp_path), {"PATH": f"{tmp_path}/other/bin:/bin"}, python)


def test_an_interpreter_that_has_us_makes_a_script_adaptive(tmp_path: Path, other: str) -> None:
    python = Interpreter(path=other, elastane="1", torch=True)
    found = look(tmp_path, ADAPTIVE, other, "train.py", python=python)
    assert (found.kind, found.python) == ("adaptive", python)
    assert look(tmp_path, ADAPTIVE, python=python).kind == "adaptive"


def test_one_that_has_not_makes_it_a_command_and_says_what_mends_it(tmp_path: Path, other: str) -> None:
    found = look(tmp_path, ADAPTIVE, python=Interpreter(path=other, elastane=""))
    assert found.kind == "command"
    assert found.why.endswith(f"install it with: {other} -m pip install 'elastane[torch]'")


def test_a_torchrun_script_needs_nothing_of_us(tmp_path: Path, other: str) -> None:
    assert look(tmp_path, MEETING, python=Interpreter(path=other, elastane="")).kind == "resizable"
    assert look(tmp_path, MEETING, other, "train.py", python=None).kind == "resizable"


def test_without_anybodys_word_another_interpreter_is_not_tried(tmp_path: Path, other: str) -> None:
    found = look(tmp_path, ADAPTIVE, other, "train.py", python=None)
    assert found.kind == "command"
    assert "elastane submit" in found.why


def test_the_machines_own_python_without_us_or_torch_means_ours_only_where_they_are_needed(
    tmp_path: Path,
) -> None:
    system = Interpreter(path=_python(tmp_path / "other", environment=False), elastane="")
    found = look(tmp_path, ADAPTIVE, python=system)
    assert (found.kind, found.python) == ("adaptive", None)
    assert found.notes == (f"{system.path} has no elastane, so the job runs with {sys.executable}",)
    assert look(tmp_path, PLAIN, python=system).python == system
    without_torch = system.model_copy(update={"torch": False})
    assert look(tmp_path, MEETING, python=without_torch).python is None
    assert look(tmp_path, "import torch.nn as nn\n", python=without_torch).python is None
    assert look(tmp_path, PLAIN, python=without_torch).python == without_torch
    assert (
        look(tmp_path, ADAPTIVE, system.path, "train.py", python=system).kind == "command"
    )  # named on purpose


def test_an_interpreter_in_our_own_folder_is_ours(tmp_path: Path) -> None:
    beside = str(Path(sys.executable).parent / "python3")
    assert runnable(["python", "train.py"], tmp_path, {}, beside).python == ""


def test_torchruns_workers_and_words_come_with_it(tmp_path: Path, other: str) -> None:
    (tmp_path / "other" / "bin" / "torchrun").write_text(f"#!{other}\n")
    (tmp_path / "other" / "bin" / "torchrun").chmod(0o755)
    found = look(tmp_path, MEETING, "torchrun", "--standalone", "--nproc-per-node=2", "train.py", python=None)
    assert (found.kind, found.workers) == ("resizable", (2, 2))
    assert "--standalone not used" in found.notes[0]
    odd = look(tmp_path, MEETING, "torchrun", "--odd", "--nproc-per-node=2", "train.py", python=None)
    assert (odd.kind, odd.workers) == ("command", None)
    assert odd.why == "torchrun's --odd is not understood, so it runs as it is"


def test_modules_are_found_along_the_jobs_own_path(tmp_path: Path, other: str) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "module_of_this_test.py").write_text(ADAPTIVE)
    examiner, words = Examiner(), ("python", "-m", "module_of_this_test")
    assert "no module" in examiner.examine("auto", words, str(tmp_path), {}).missing
    assert examiner.examine("auto", words, str(tmp_path), {"PYTHONPATH": "more"}).kind == "adaptive"
    python = Interpreter(path=other, elastane="1")
    assert examiner.examine("auto", words, str(tmp_path), {}, python).missing == ""


def test_another_interpreter_in_our_folder_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, target in (("python3", sys.executable), ("python", sys.executable), ("python2.7", "/bin/sh")):
        (tmp_path / name).symlink_to(Path(target).resolve())
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    assert command._is_ours(str(tmp_path / "python"))
    assert not command._is_ours(str(tmp_path / "python2.7"))
