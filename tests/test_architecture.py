"""The rooms of the house and who may know whom: dependencies point down only.

``ROOMS`` is the table of the design.  A room may import what its row names, and what those may import in turn.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
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
    "demo": {"client", "testing"},
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


def imported_modules(text: str, package: list[str]) -> Iterator[str]:
    """Modules that a file imports when it is loaded or checked: at its top level, also for type checking only."""
    waiting: list[ast.stmt] = list(ast.parse(text).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If | ast.Try):
            waiting += [*node.body, *node.orelse, *getattr(node, "finalbody", ())]
            waiting += [part for handler in getattr(node, "handlers", ()) for part in handler.body]
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def imported_anywhere(text: str, package: list[str]) -> set[str]:
    """The same wherever an import stands: in functions, too."""
    return {
        name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in imported_modules(ast.unparse(node), package)
    }


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Sets of modules each of which leads to all others of its set."""
    reach = {name: _reached(graph, name) for name in graph}
    rings = {
        frozenset({name, *(other for other in reach[name] if name in reach.get(other, ()))})
        for name in graph
        if name in reach[name]
    }
    return sorted(sorted(ring) for ring in rings)


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found, waiting = set[str](), [start]
    while waiting:
        new = graph.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


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


def module_of(path: Path) -> str:
    """The dotted name under which a file is imported."""
    return ".".join(["elastane", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")


def test_no_modules_import_each_other_not_even_for_types_or_late() -> None:
    """A package's ``__init__`` passes on what its modules hold, and is no part of a cycle by that."""
    modules = {module_of(path): path for path in FILES if path.name != "__init__.py"}
    graph = {
        name: {
            other
            for other in imported_anywhere(path.read_text(encoding="utf-8"), name.split(".")[:-1])
            if other in modules
        }
        for name, path in modules.items()
    }
    assert sum(map(len, graph.values())) > 1000
    assert cycles(graph) == []


def test_a_cycle_of_imports_is_found_also_under_type_checking_and_in_functions() -> None:
    text = "if TYPE_CHECKING:\n    from elastane.a import b\nelse:\n    import c\ndef late():\n    import d"
    assert set(imported_modules(text, ["elastane"])) == {"elastane.a", "elastane.a.b", "c"}
    assert imported_anywhere(text, ["elastane"]) == {"elastane.a", "elastane.a.b", "c", "d"}
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


NOT_FOR_COORDINATORS = ("torch", "elastane.train.worker", "elastane.train.script")

WARMS_WORKERS = {"forkserver.py": "warm_up"}
"""Functions of the coordinator's package that run in a process which becomes workers, and import what those need."""


def needed(text: str, package: list[str], except_in: str | None = None) -> set[str]:
    """Modules that a file imports anywhere, also by a name that stands there; not those of one function."""
    found, waiting = set[str](), list[ast.AST](ast.parse(text).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef) and node.name == except_in:
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= set(imported_modules(ast.unparse(node), package))
        elif isinstance(node, ast.Call) and _name_of(node.func) in {"import_module", "__import__"}:
            found |= {str(name.value) for name in node.args if isinstance(name, ast.Constant)}
        waiting += ast.iter_child_nodes(node)
    return found


def of_workers(names: Iterable[str]) -> list[str]:
    """Those that a coordinator does not need."""
    return [name for name in names if any(f"{name}.".startswith(f"{no}.") for no in NOT_FOR_COORDINATORS)]


@pytest.mark.parametrize(
    "path", sorted((SOURCE / "train" / "coordinator").rglob("*.py")), ids=lambda path: path.name
)
def test_a_coordinator_needs_neither_pytorch_nor_what_trains(path: Path) -> None:
    """Wherever in the file the import stands: who coordinates starts at once and holds no accelerator."""
    package, text = module_of(path).split(".")[:-1], path.read_text(encoding="utf-8")
    excepted = WARMS_WORKERS.get(path.name)
    assert of_workers(needed(text, package, excepted)) == []
    assert excepted is None or of_workers(needed(text, package)), "it is no exception any more"


@pytest.mark.parametrize(
    "text",
    [
        "def late():\n    import torch.nn",
        "import importlib\ndef late():\n    importlib.import_module('torch')",
        "from importlib import import_module\nimport_module('elastane.train.worker.loop')",
        "def warm_up():\n    pass\nfrom elastane.train import worker",
    ],
)
def test_what_a_coordinator_does_not_need_is_found_however_it_is_imported(text: str) -> None:
    assert of_workers(needed(text, ["elastane", "train", "coordinator"], "warm_up"))


LONG = 350
"""Lines above which a module has to be one idea, and says so here."""

ONE_IDEA = {
    "service/messages.py": "every message of the API, one after the other",
    "train/coordinator/messages.py": "every message between a supervisor and its peers, with the four lines' decoders",
    "simcore/world.py": "the event loop of a simulated cluster",
    "train/script/api.py": "all that a training script calls",
    "train/script/session.py": "a script's way from its first call to its last",
    "train/worker/elastic_membership.py": "a member's side of each change of members",
}
"""The modules that are longer; the list only shrinks."""


def test_a_long_module_is_one_idea_and_is_on_the_list() -> None:
    lengths = {str(path.relative_to(SOURCE)): len(path.read_text("utf-8").splitlines()) for path in FILES}
    long = {name for name, lines in lengths.items() if lines > LONG}
    assert long - ONE_IDEA.keys() == set(), f"more than {LONG} lines: which parts do these have?"
    assert ONE_IDEA.keys() - long == set(), "these have become shorter, and leave the list"


TESTS = Path(__file__).parent
NOT_OF_A_ROOM = {Path("fakegpu"), Path("train/devices")}
"""``fakegpu`` is an instrument of the tests with tests of its own; ``train/devices`` runs whole jobs on it."""


@pytest.mark.parametrize(
    "folder",
    sorted({path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")} - NOT_OF_A_ROOM),
    ids=str,
)
def test_tests_stand_in_the_folder_of_the_room_that_they_test(folder: Path) -> None:
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


def _name_of(base: ast.expr) -> str:
    """The last name of a base class: ``a.b.C[T]`` is ``C``."""
    base = base.value if isinstance(base, ast.Subscript) else base
    return base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""


def towers(trees: Iterable[ast.Module], ours: Mapping[str, ast.ClassDef]) -> list[str]:
    """Classes with two classes of ours above them, side by side or one upon the other.

    Protocols, exceptions and messages (values without behaviour) hold nothing and do not count.
    """

    def bare(name: str) -> bool:
        if name in ("Protocol", "Message") or name.endswith(("Error", "Exception")):
            return True
        return name in ours and any(bare(_name_of(base)) for base in ours[name].bases)

    def above(node: ast.ClassDef, seen: frozenset[str] = frozenset()) -> set[str]:
        names = {
            name for name in map(_name_of, node.bases) if name in ours and name not in seen and not bare(name)
        }
        return names.union(*(above(ours[name], seen | names) for name in names))

    return [
        node.name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and len(above(node)) > 1
    ]


def classes(trees: Iterable[ast.Module]) -> dict[str, ast.ClassDef]:
    """Every class by its name."""
    return {node.name: node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def test_no_class_of_the_service_is_assembled_from_storeys() -> None:
    """A class that stands on several of ours cannot be made, nor tested, without all of them: parts are held."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
    service = [tree for path, tree in trees.items() if room_of(path) == "service"]
    assert towers(service, classes(trees.values())) == []


def test_a_tower_is_found_and_a_protocol_is_none() -> None:
    text = (
        "class P(Protocol): ...\nclass Q(P): ...\nclass OddError(ValueError): ...\nclass A: ...\n"
        "class B(Generic[T]): ...\nclass Message: ...\nclass M(Message): ...\n"
        "class Tower(x.A, B[int]): ...\nclass Fine(A, Q, P, OddError, M, dict): ...\n"
        "class Storey(A): ...\nclass Chain(Storey): ...\n"
    )
    tree = ast.parse(text)
    assert towers([tree], classes([tree])) == ["Tower", "Chain"]


WHOLE = "elastane.service.control.plane"
"""The module of the control plane itself, of which its parts know nothing."""

HOLD_THE_WHOLE = {"service/daemon.py", "service/live_service.py"}
"""Who makes a control plane, and who binds verbs to its parts; nobody is added."""


def importers(files: Mapping[str, str], module: str) -> set[str]:
    """Files that import a module, wherever in the file that stands, also for types only."""
    return {
        name
        for name, text in files.items()
        if module in imported_anywhere(text, ["elastane", *Path(name).parts[:-1]])
    }


def test_parts_of_the_service_are_given_what_they_need_and_not_the_whole_control_plane() -> None:
    files = {str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8") for path in FILES}
    assert importers(files, WHOLE) == HOLD_THE_WHOLE


def test_a_part_that_is_given_the_whole_is_found() -> None:
    files = {
        "service/a.py": "if TYPE_CHECKING:\n    from elastane.service.control.plane import ControlPlane",
        "service/control/b.py": "def late():\n    from .plane import ControlPlane",
        "service/c.py": "from elastane.service.control import plane",
        "service/d.py": "from elastane.service.control.settings import ControlSettings",
    }
    assert importers(files, WHOLE) == {"service/a.py", "service/control/b.py", "service/c.py"}
