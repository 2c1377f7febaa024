"""Finds the names and attributes that a function's body reads, from its source."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any


def body_of(function: Callable[..., Any]) -> list[ast.stmt]:
    """The statements of a function, without its signature."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    return definition.body


def _nodes(function: Callable[..., Any]) -> list[ast.AST]:
    return [node for statement in body_of(function) for node in ast.walk(statement)]


def unread_parameters(function: Callable[..., Any]) -> set[str]:
    """Parameters that the body never reads."""
    read = {n.id for n in _nodes(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return set(inspect.signature(function).parameters) - read


def attributes_read(function: Callable[..., Any], name: str) -> set[str]:
    """Attributes that the body reads of one of its names."""
    return {
        node.attr
        for node in _nodes(function)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name
    }
