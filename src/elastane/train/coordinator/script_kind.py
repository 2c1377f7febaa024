"""The kind of a script is found in its text: how much it can take part in changes of its workers.

The source is read, never run.  Only what the script itself imports or calls counts, not comments or strings,
and not what the modules do that it imports; the owner may say otherwise.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.machinery import PathFinder
from pathlib import Path

from elastane.jobs.sources import Unreadable, read_source
from elastane.suggest import did_you_mean
from elastane.train.errors import TrainError


class JobKind(StrEnum):
    """How a script is run, from most to least elastic."""

    ADAPTIVE = "adaptive"
    """Uses ``elastane.train``: workers come and go while it trains."""
    RESIZABLE = "resizable"
    """A torchrun script with its own checkpoints: resized by a restart."""
    COMMAND = "command"
    """Anything else: started once, never resized."""

    @classmethod
    def _missing_(cls, value: object) -> JobKind | None:
        """Reads what earlier versions stored: they called a command *rigid*."""
        return cls.COMMAND if value == "rigid" else None


AUTO = "auto"
_OURS = ("elastane.train", "elastane.compat")
_MOST_PARTS = 8
"""Of a dotted name: a chain of thousands is looked at in pieces, each once."""
_TORCH = ("torch.distributed", "init_process_group")


@dataclass(frozen=True, slots=True)
class Choice:
    """A kind, and why."""

    kind: JobKind
    reason: str


def choose_kind(asked: str, source: Path | None) -> Choice:
    """The kind ``asked`` for or, for ``auto``, the one that the source (None: not to be found) suggests.

    Raises:
        TrainError: there is no such kind.
    """
    known = [AUTO, *JobKind]
    if asked not in known:
        raise TrainError(
            f"--kind: there is no {asked!r}{did_you_mean(asked, known)} (known: {', '.join(known)})"
        )
    if asked != AUTO:
        return Choice(JobKind(asked), "--kind says so")
    if source is None:
        return Choice(JobKind.COMMAND, "its source was not found")
    try:
        return kind_of(read_source(source))
    except Unreadable as error:
        return Choice(JobKind.COMMAND, f"its source was not read: {error}")


def kind_of(source: bytes) -> Choice:
    """What the text of a script suggests."""
    try:
        mentions = list(_mentions(ast.parse(source)))
    except (SyntaxError, ValueError):
        return Choice(JobKind.COMMAND, "it is not valid Python")
    except (MemoryError, RecursionError):
        return Choice(JobKind.COMMAND, "its source is nested too deeply to be read")
    for kind, names in ((JobKind.ADAPTIVE, _OURS), (JobKind.RESIZABLE, _TORCH)):
        for line, mentioned in mentions:
            for name in names:
                if mentioned == name or mentioned.startswith(f"{name}.") or mentioned.endswith(f".{name}"):
                    return Choice(kind, f"line {line} uses {name}")
    return Choice(JobKind.COMMAND, "it uses neither elastane.train nor torch.distributed")


def uses(source: Path | None, package: str) -> bool:
    """Whether a script itself imports something of a package."""
    try:
        mentions = _mentions(ast.parse(read_source(source))) if source is not None else ()
        return any(name == package or name.startswith(f"{package}.") for _, name in mentions)
    except (SyntaxError, ValueError, OSError, MemoryError, RecursionError):
        return False


def _mentions(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything imported or looked up."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in names)
            case ast.Attribute() | ast.Name():
                yield node.lineno, _dotted(node)


def _dotted(node: ast.expr) -> str:
    """Its last parts: whatever stands before them is another node, which is looked at by itself."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < _MOST_PARTS:
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "")
    return ".".join(reversed(parts))


def source_of_module(module: str, directory: Path, path: Sequence[str] | None = None) -> Path | None:
    """The file that ``python -m module`` would run in this directory; nothing is imported to find it.

    ``path`` are the folders of modules, by default those of our own interpreter.
    """
    places: list[str] | None = [str(directory), *(sys.path if path is None else path)]
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:depth]), places)
        if spec is None:
            return None
        places = spec.submodule_search_locations
        if depth < len(parts) and places is None:
            return None
    if places:
        main = Path(places[0]) / "__main__.py"
        return main if main.is_file() else None
    return Path(spec.origin) if spec and spec.origin and spec.has_location else None
