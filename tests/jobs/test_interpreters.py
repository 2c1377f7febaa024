"""The interpreter of a command is found as a shell would find it, by files alone."""

from __future__ import annotations

from pathlib import Path

from elastane.jobs.interpreters import find_interpreter, is_environment


def program(path: Path, first: str = "#!/bin/sh") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{first}\n")
    path.chmod(0o755)
    return str(path)


def test_a_name_is_looked_for_on_the_path_and_a_path_in_the_directory(tmp_path: Path) -> None:
    python = program(tmp_path / "venv" / "bin" / "python")
    assert find_interpreter("python", tmp_path, {"PATH": f"/nowhere:{tmp_path}/venv/bin"}) == python
    assert find_interpreter("venv/bin/python", tmp_path, {"PATH": "/nowhere"}) == python
    assert find_interpreter("python", tmp_path, {"PATH": "/nowhere"}) is None


def test_an_installed_command_has_the_interpreter_of_its_first_line_or_the_one_beside_it(
    tmp_path: Path,
) -> None:
    python = program(tmp_path / "a" / "bin" / "python3")
    program(tmp_path / "b" / "bin" / "torchrun", f"#!{python}")
    beside = program(tmp_path / "c" / "bin" / "python")
    program(tmp_path / "c" / "bin" / "torchrun", "#!/bin/sh")
    assert find_interpreter("torchrun", tmp_path, {"PATH": f"{tmp_path}/b/bin"}) == python
    assert find_interpreter("torchrun", tmp_path, {"PATH": f"{tmp_path}/c/bin"}) == beside


def test_a_project_has_its_own_and_never_that_of_a_project_around_it(tmp_path: Path) -> None:
    python = program(tmp_path / "p" / ".venv" / "bin" / "python")
    (tmp_path / "p" / "src").mkdir()
    assert find_interpreter("uv", tmp_path / "p" / "src", {}) == python
    (tmp_path / "p" / "src" / "pyproject.toml").touch()
    assert find_interpreter("uv", tmp_path / "p" / "src", {}) is None


def test_environments_are_told_from_the_machines_own(tmp_path: Path) -> None:
    python = program(tmp_path / "venv" / "bin" / "python")
    assert not is_environment(python)
    (tmp_path / "venv" / "conda-meta").mkdir()
    assert is_environment(python)
