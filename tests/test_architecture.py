"""The rooms of the house and who may know whom: dependencies point down only.

``ROOMS`` is the table of the design.  A room may import what its row names, and what those may import in turn.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "elastane"

ROOMS: dict[str, set[str]] = {
    "accelerators": set(),
    "jobs": set(),
    "cluster": set(),
    "models": {"jobs", "cluster"},
    "policies": {"models"},
    "scheduling": {"policies"},
    "simcore": {"scheduling"},
    "testing": {"scheduling", "engines"},
    "sim": {"simcore", "policies"},
    "train": {"models", "accelerators"},
    "engines": {"jobs", "cluster", "train"},
    "compat": {"train"},
    "predict": {"models"},
    "service": {"simcore", "policies", "engines", "predict"},
    "client": {"service"},
    "demo": {"client"},
}
USERS = {"client", "demo"}
"""Rooms that only talk to the service, from outside."""

GROUND = {"codec", "errors", "kit", "lazy", "resources", "suggest", "textfiles"}
"""Modules below every room."""

DOORS = {"cli", "__init__", "__main__"}
"""Where people come in: these may import everything, and nothing may import them."""


def below(room: str) -> set[str]:
    """Every room that ``room`` may import."""
    return ROOMS[room].union(*(below(lower) for lower in ROOMS[room]))


def room_of(path: Path) -> str:
    """The room (or the ground module, or the door) that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(tree: ast.AST, package: list[str]) -> Iterator[tuple[int, str]]:
    """(line, room) of every import of one of ours, wherever it stands in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            if top == "elastane" and rest:
                yield node.lineno, rest.split(".")[0]


def violations(room: str, text: str, package: list[str]) -> list[str]:
    """Imports in one file that its room may not have."""
    if room in DOORS:
        return []
    allowed = GROUND if room in GROUND else GROUND | {room} | below(room)
    found = imported_rooms(ast.parse(text), package)
    # A single underscore name such as __version__ is a constant of the package, not a room.
    return [
        f"line {line}: {room} imports {other}"
        for line, other in found
        if other not in allowed | {"__version__"}
    ]


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_room_imports_one_above_it(path: Path) -> None:
    package = ["elastane", *path.relative_to(SOURCE).parts[:-1]]
    assert violations(room_of(path), path.read_text(encoding="utf-8"), package) == []


def test_the_table_has_every_room_in_the_house_and_no_other() -> None:
    assert {room_of(path) for path in FILES} == ROOMS.keys() | GROUND | DOORS


TESTS = Path(__file__).parent


@pytest.mark.parametrize(
    "folder",
    sorted(
        {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
        - {Path("fakegpu"), Path("train/devices")}
    ),
    ids=str,
)
def test_tests_stand_in_the_folder_of_the_room_that_they_test(folder: Path) -> None:
    """``fakegpu`` is an instrument of the tests with tests of its own; ``train/devices`` runs whole jobs on it."""
    assert (SOURCE / folder).is_dir(), f"there is no {folder} in src/elastane whose tests these could be"


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_is_below_itself(room: str) -> None:
    assert room not in below(room)


def test_nothing_below_the_service_and_the_simulator_knows_either() -> None:
    assert all(not below(room) & {"sim", "service"} for room in ROOMS.keys() - USERS)


@pytest.mark.parametrize(
    "text",
    [
        "import elastane.sim.metrics",
        "from elastane import sim",
        "from elastane.sim import metrics",
        "from ..sim import metrics",
        "from .. import sim",
        "def late():\n    from elastane.sim.metrics import mean_jct",
        "from elastane.cli.main import main",
    ],
)
def test_an_import_upward_is_found_however_it_is_written(text: str) -> None:
    assert len(violations("policies", text, ["elastane", "policies"])) == 1


@pytest.mark.parametrize(
    "text",
    [
        "from elastane.cluster import Grant",
        "from elastane.policies.view import View",
        "from .view import View",
        "from . import view",
        "from elastane.errors import ElastaneError",
        "from elastane import __version__",
        "import numpy",
    ],
)
def test_an_import_downward_or_sideways_is_fine(text: str) -> None:
    assert violations("policies", text, ["elastane", "policies"]) == []
