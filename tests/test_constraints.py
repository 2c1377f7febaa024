"""``constraints.txt`` pins everything that ``make install`` installs, within the bounds of ``pyproject.toml``."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
OF_INTERNALS = ("fastapi", "starlette", "pydantic", "uvicorn", "httptools", "sqlalchemy", "typer", "click")
"""Packages of which more is used than they promise to keep."""


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


def test_a_new_major_of_what_we_know_from_inside_is_not_taken_unasked() -> None:
    bounds = {canonicalize_name(each.name): each.specifier for each in tool().direct()}
    for name in OF_INTERNALS:
        assert Version(f"{pinned(name).major + 1}.0") not in bounds[name], name


def test_make_install_uses_them() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "$(STAMP): pyproject.toml constraints.txt" in text
    assert "--constraint constraints.txt --editable" in text
