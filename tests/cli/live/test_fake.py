"""The server in memory has the client's verbs with the client's parameters: it cannot drift away from it."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import elastane.cli.live
from cli.live.fake import Fake
from elastane.client import Client

_OWN = {name for name in vars(Fake) if name in vars(Client) and not name.startswith("_")}


def _parameters(function: object) -> list[tuple[str, object, object]]:
    assert callable(function)
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("verb", sorted(_OWN))
def test_it_takes_what_the_client_takes(verb: str) -> None:
    assert _parameters(vars(Fake)[verb]) == _parameters(vars(Client)[verb])


def test_it_has_every_verb_that_the_command_line_calls() -> None:
    verbs = {name for name, value in vars(Client).items() if inspect.isfunction(value)}
    called = {
        node.attr
        for path in Path(elastane.cli.live.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in verbs and _of_a_client(node.value)
    }
    assert {"submit", "jobs", "why", "follow_logs"} <= called
    assert called <= _OWN


def _of_a_client(value: ast.expr) -> bool:
    return ast.unparse(value) in ("client", "connection.connect()")
