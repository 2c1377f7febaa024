"""Whether a script that runs with one worker is told RANK, WORLD_SIZE and the address to meet at, as torchrun would.

More than one worker always is.  A lone one is told only if its script meets the others whatever happens: many scripts
look whether the variables are there, and train by themselves if not, as they do outside of any scheduler.
The source is read, never run; where it leaves a doubt, a script that uses ``torch.distributed`` is told.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from elastane.jobs.sources import read_source
from elastane.train.coordinator.script_kind import JobKind, kind_of

_VARIABLES = frozenset({"RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RUN_ID"})
_LOOKUPS = frozenset({"get", "getenv"})
_ASKING = frozenset({"is_torchelastic_launched"})
_MEETING = "init_process_group"


def told_alone(kind: JobKind, source: Path | None) -> bool:
    """Whether the only worker of a plain job is told; ``source`` is its script, None if that is not known."""
    try:
        text = read_source(source) if source is not None else None
    except OSError:
        text = None
    if text is None:
        return kind is JobKind.RESIZABLE
    return kind_of(text).kind is JobKind.RESIZABLE and not trains_by_itself(text)


def trains_by_itself(source: bytes) -> bool:
    """Whether a script that is not told joins no group: each of its calls depends on a look at the variables.

    >>> trains_by_itself(b"if 'RANK' in os.environ: dist.init_process_group()")
    True
    >>> trains_by_itself(b"local = os.environ.get('LOCAL_RANK', 0); dist.init_process_group()")
    False
    """
    try:
        return _Script(ast.parse(source)).depends()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


class _Script:
    """Follows one script from its calls that meet others back to what they depend on."""

    def __init__(self, tree: ast.AST) -> None:
        self._tree = tree
        self._parent: Mapping[ast.AST, ast.AST] = {
            child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)
        }
        self._informed = self._names_of_looks()

    def depends(self) -> bool:
        calls = list(self._calls(_MEETING))
        return bool(calls) and all(self._asked_before(call, frozenset()) for call in calls)

    def _calls(self, name: str) -> Iterator[ast.Call]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call) and _last_name(node.func) == name:
                yield node

    def _asked_before(self, node: ast.AST, seen: frozenset[str]) -> bool:
        """Whether a condition about the variables stands around a place, or around every call that leads there."""
        while (above := self._parent.get(node)) is not None:
            if isinstance(above, ast.If | ast.IfExp) and node is not above.test and self._asks(above.test):
                return True
            if isinstance(above, ast.FunctionDef):
                calls = list(self._calls(above.name)) if above.name not in seen else []
                return bool(calls) and all(self._asked_before(call, seen | {above.name}) for call in calls)
            node = above
        return False

    def _asks(self, test: ast.AST) -> bool:
        return any(_is_look(node) or _last_name(node) in self._informed for node in ast.walk(test))

    def _names_of_looks(self) -> frozenset[str]:
        """Variables, attributes and functions whose value comes from a look, over any number of steps."""
        bound = list(self._bound())
        known: frozenset[str] = frozenset()
        while True:
            self._informed = known
            known = frozenset(name for name, value in bound if self._asks(value)) - {""}
            if known == self._informed:
                return known

    def _bound(self) -> Iterator[tuple[str, ast.AST]]:
        """(name, value) of everything that is assigned or returned."""
        for node in ast.walk(self._tree):
            match node:
                case ast.Assign(targets=targets, value=value):
                    yield from ((_last_name(target), value) for target in targets)
                case ast.AnnAssign(target=target, value=ast.AST() as value):
                    yield _last_name(target), value
                case ast.FunctionDef(name=name):
                    returned = (part.value for part in ast.walk(node) if isinstance(part, ast.Return))
                    yield from ((name, value) for value in returned if value is not None)


def _is_look(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]) if _last_name(func) in _LOOKUPS:
            return name in _VARIABLES
        case ast.Call(func=func):
            return _last_name(func) in _ASKING
        case ast.Compare(left=ast.Constant(value=str(name)), ops=[ast.In() | ast.NotIn()]):
            return name in _VARIABLES
    return False


def _last_name(node: ast.AST) -> str:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""
