"""Objects of the training library change by their own methods: nobody assigns to another object's attributes.

So a reader of a constructor knows what an object consists of, and a reader of a class what can happen to it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import elastane

SOURCE = Path(elastane.__file__).parent
ROOMS = (
    "train/script",
    "train/worker",
    "train/reduce",
    "train/data",
    "train/adapt",
    "train/hf.py",
    "train/lightning.py",
    "train/accelerate.py",
    "compat/horovod",
)

FOREIGN = {
    "optimizer": "torch: its methods are gated",
    "scheduler": "torch: its methods are gated",
    "scaler": "torch: its methods are gated",
    "parameter": "torch: gradients",
    "place.parameter": "torch: gradients",
    "self._parameters[index]": "torch: gradients",
    "options": "torch: options of a process group",
    "torch.Tensor": "torch: backward is looked at once",
    "torch.backends.cudnn": "torch: a switch",
    "renamed": "torch: versions of a state_dict",
    "self._cell": "Python: the cell of a closure",
    "sys": "Python: the exception hook",
    "wrapped": "Python: the cause of an exception",
    "step": "Python: a mark on a function",
    "optimizer.step.__func__": "Python: a mark on a function",
    "state": "transformers: the state of its trainer",
    "control": "transformers: the wishes of callbacks",
    "trainer": "transformers: a trainer",
    "args": "transformers: its arguments",
    "fit._data_fetcher": "lightning: its loop",
    "fit.epoch_loop": "lightning: its loop",
    "_rank_zero.rank_zero_only": "lightning: its idea of the rank",
    "_reading": "a thread-local value",
}
"""Objects that are no part of the library (or say what they are), by the expression that names them."""


def files() -> Iterator[Path]:
    for room in ROOMS:
        path = SOURCE / room
        yield from [path] if path.suffix else sorted(path.rglob("*.py"))


def targets(node: ast.AST) -> Iterator[ast.expr]:
    """The single targets of an assignment."""
    if isinstance(node, ast.Assign):
        found = list(node.targets)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        found = [node.target]
    else:
        found = []
    while found:
        target = found.pop()
        if isinstance(target, ast.Tuple | ast.List):
            found += target.elts
        else:
            yield target.value if isinstance(target, ast.Starred) else target


def assigned(text: str) -> list[ast.Attribute]:
    """Assignments to attributes of other objects than ``self``."""
    found = (target for node in ast.walk(ast.parse(text)) for target in targets(node))
    return [
        target
        for target in found
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) not in {"self", "cls"}
    ]


def writes(text: str) -> list[str]:
    """Those to objects of the library."""
    return [
        f"line {target.lineno}: {ast.unparse(target)}"
        for target in assigned(text)
        if ast.unparse(target.value) not in FOREIGN
    ]


@pytest.mark.parametrize("path", list(files()), ids=lambda path: str(path.relative_to(SOURCE)))
def test_nobody_writes_into_another_object(path: Path) -> None:
    assert not writes(path.read_text())


@pytest.mark.parametrize(
    "text",
    [
        "self._loop.catching_up = True",
        "loop.raw_step = step",
        "self.adaptation.epoch += 1",
        "self._feed.skipped: int = 1",
        "a, (self._gear.reducer.observe, *self.loop.rest) = b",
    ],
)
def test_a_write_would_be_found(text: str) -> None:
    assert writes(text)


def test_every_exception_is_needed() -> None:
    used = {ast.unparse(target.value) for path in files() for target in assigned(path.read_text())}
    assert set(FOREIGN) <= used
