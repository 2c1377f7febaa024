"""``constraints.txt`` pins everything that ``make install`` installs, within the bounds of ``pyproject.toml``."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
OF_INTERNALS = (
    "fastapi",
    "starlette",
    "pydantic",
    "uvicorn",
    "httptools",
    "sqlalchemy",
    "typer",
    "click",
    "torch",
)
"""Packages of which more is used than they promise to keep; of torch, ``_C._distributed_c10d`` and ``_foreach_*``."""


def tool() -> ModuleType:
    found = importlib.util.spec_from_file_location("constraints", ROOT / "tools" / "constraints.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def pins() -> dict[str, Requirement]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(each.name): each for each in found}


def pinned(name: str) -> Version:
    (exact,) = pins()[canonicalize_name(name)].specifier
    assert exact.operator == "=="
    return Version(exact.version)


@pytest.mark.parametrize("wanted", tool().direct(), ids=str)
def test_every_direct_dependency_is_pinned_within_its_bounds(wanted: Requirement) -> None:
    assert pinned(wanted.name) in wanted.specifier


def test_all_that_the_direct_ones_need_is_pinned_too() -> None:
    missing = set(tool().closure(tool().direct())) - set(pins())
    assert not missing, f"run 'make constraints': {sorted(missing)}"


def test_pins_are_for_every_machine() -> None:
    """No builds of one machine (2.13.0+cpu), no addresses, no markers that leave a supported Python unpinned."""
    for each in pins().values():
        assert pinned(each.name).local is None
        assert each.url is None
        assert each.marker is None
    assert "/" not in (ROOT / "constraints.txt").read_text(encoding="utf-8")


def breaking(version: Version) -> Version:
    """The next one that may break: below 1.0 the minor number says that."""
    return Version(f"{version.major + 1}.0" if version.major else f"0.{version.minor + 1}")


@pytest.mark.parametrize("name", OF_INTERNALS)
def test_what_we_know_from_inside_is_not_taken_newer_unasked(name: str) -> None:
    asked = [each for each in tool().direct() if canonicalize_name(each.name) == name]
    assert asked
    for each in asked:  # the extra 'torch' bounds by itself, whatever 'dev' pins
        assert breaking(pinned(name)) not in each.specifier, str(each)


@pytest.mark.parametrize(
    ("asked", "tested", "taken"),
    [
        ("fastapi>=0.110,<1", "0.163.0", True),
        ("fastapi>=0.110,<0.164", "0.163.0", False),
        ("torch>=2.13", "2.13.0", True),
        ("torch>=2.13,<3", "2.13.0", False),
    ],
)
def test_a_bound_that_lets_the_next_one_in_is_noticed(asked: str, tested: str, taken: bool) -> None:
    assert (breaking(Version(tested)) in Requirement(asked).specifier) is taken


def modules_used() -> set[str]:
    """Every module of somebody else's that our source imports, or reaches by its full name."""
    found = set[str]()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "torch"
            ):
                found.add(f"torch.{node.attr}")
    return {name for name in found if name.partition(".")[0] not in (*sys.stdlib_module_names, "elastane")}


def test_every_package_whose_private_parts_are_used_is_among_them() -> None:
    private = {
        name.partition(".")[0]
        for name in modules_used()
        if any(part.startswith("_") for part in name.split("."))
    }
    assert "torch" in private
    assert private <= set(OF_INTERNALS)


def test_make_install_uses_them() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "$(STAMP): pyproject.toml constraints.txt" in text
    assert "--constraint constraints.txt --editable" in text
