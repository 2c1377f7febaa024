"""Finds which attributes of which class code reads, from the annotations in its source, without importing it.

A name has the class that its annotation names (a parameter's, a variable's, a property's or function's result, a
field's); what has no annotation has none, and reads of it count for nothing.  So ``spec.name`` counts as a read of
``JobSpec.name`` only where ``spec`` is said to be a ``JobSpec``, whatever else is called ``spec`` or ``name``.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_NO_CLASSES = {"None", "Annotated", "Final", "ClassVar", "Sequence", "Iterable", "Mapping", "Field", "Literal"}


@dataclass
class Class:
    """What annotations say of a class: the class of each attribute, and its bases."""

    bases: list[str] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)


@cache
def trees(source: Path) -> Mapping[Path, ast.Module]:
    """Every module below a folder, parsed once."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(source.rglob("*.py"))}


def class_of(annotation: ast.expr | None) -> str:
    """The first class that an annotation names: ``JobSpec`` of ``JobSpec | None`` and ``Annotated[JobSpec, …]``."""
    if annotation is None:
        return ""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    names = (node.id for node in ast.walk(annotation) if isinstance(node, ast.Name))
    return next((name for name in names if name.lstrip("_")[:1].isupper() and name not in _NO_CLASSES), "")


@cache
def classes(source: Path) -> Mapping[str, Class]:
    """Classes by name, and under "" what functions return; two of one name are one with the attributes of both."""
    found: dict[str, Class] = {"": Class()}
    for tree in trees(source).values():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found[""].attributes[node.name] = class_of(node.returns)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
                for alias in node.targets:
                    if isinstance(alias, ast.Name):
                        found[""].attributes.setdefault(f"={alias.id}", class_of(node.value))
            elif isinstance(node, ast.ClassDef):
                known = found.setdefault(node.name, Class())
                known.bases += [class_of(base) for base in node.bases]
                for part in node.body:
                    if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                        known.attributes[part.target.id] = class_of(part.annotation)
                    elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                        known.attributes.setdefault(part.name, class_of(part.returns))
                        if part.name == "__init__":
                            known.attributes |= _set_by(part)
    return found


def _set_by(init: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, str]:
    """``self.x = x``, also several at once, where ``x`` is an annotated parameter."""
    given = {arg.arg: class_of(arg.annotation) for arg in (*init.args.args, *init.args.kwonlyargs)}
    found = {}
    for node in ast.walk(init):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = (
                    zip(target.elts, node.value.elts, strict=False)
                    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                    else [(target, node.value)]
                )
                for left, right in pairs:
                    if isinstance(left, ast.Attribute) and isinstance(right, ast.Name):
                        found[left.attr] = given.get(right.id, "")
    return found


def attribute(source: Path, owner: str, name: str) -> tuple[str, str]:
    """(the class that declares an attribute, the attribute's class); empty where there is none."""
    known = classes(source).get(owner)
    if known is None:
        return "", ""
    if name in known.attributes:
        return owner, classes(source)[""].attributes.get(f"={known.attributes[name]}") or known.attributes[name]
    return next((found for base in known.bases if (found := attribute(source, base, name))[0]), ("", ""))


class _Reads(ast.NodeVisitor):
    """Collects reads in one module; ``names`` are the classes of names in the present scope."""

    def __init__(self, source: Path) -> None:
        self.source, self.found = source, set[str]()
        self.names: dict[str, str] = {}
        self.owner = ""

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        before, self.owner = self.owner, node.name
        self.generic_visit(node)
        self.owner = before

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        before = dict(self.names)
        for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            self.names[arg.arg] = class_of(arg.annotation) or (self.owner if arg.arg in ("self", "cls") else "")
        self.generic_visit(node)
        self.names = before

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.names[target.id] = self.type_of(node.value)
            elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                for left, right in zip(target.elts, node.value.elts, strict=False):
                    if isinstance(left, ast.Name):
                        self.names[left.id] = self.type_of(right)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.generic_visit(node)
        if isinstance(node.target, ast.Name):
            self.names[node.target.id] = class_of(node.annotation)

    def visit_For(self, node: ast.For) -> None:
        if isinstance(node.target, ast.Name):
            self.names[node.target.id] = self.type_of(node.iter)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        if isinstance(node.target, ast.Name):
            self.names[node.target.id] = self.type_of(node.iter)
        self.generic_visit(node)

    def _visit_with_generators(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> None:
        for generator in node.generators:
            self.visit(generator)
        self.generic_visit(node)

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _visit_with_generators  # noqa: N815

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.generic_visit(node)
        self.names[node.target.id] = self.type_of(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name):
            self.found |= {f"{node.func.id}({self.type_of(arg)})" for arg in node.args}

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            owner, _ = attribute(self.source, self.type_of(node.value), node.attr)
            if owner:
                self.found.add(f"{owner}.{node.attr}")

    def type_of(self, node: ast.expr) -> str:
        """The class of an expression, as far as annotations tell; of a collection, that of its elements."""
        match node:
            case ast.Name(id=name):
                return self.names.get(name, "")
            case ast.Attribute(value=value, attr=name):
                return attribute(self.source, self.type_of(value), name)[1]
            case ast.Call(func=ast.Name(id=name)):
                known = classes(self.source)
                return name if name in known else known[""].attributes.get(name, "")
            case ast.Call(func=ast.Attribute(value=value, attr=name)):
                inside = self.type_of(value)
                return attribute(self.source, inside, name)[1] or (
                    inside if name in ("values", "model_copy") else ""
                )
            case ast.BoolOp(values=[*_, last]) | ast.IfExp(body=last) | ast.Await(value=last):
                return self.type_of(last)
            case ast.Subscript(value=value):
                return self.type_of(value)
        return ""


@cache
def reads(source: Path, room: str) -> frozenset[str]:
    """``Class.attribute`` of every read in a room, and ``function(Class)`` of every call."""
    found: set[str] = set()
    for path, tree in trees(source).items():
        if path.is_relative_to(source / room):
            reader = _Reads(source)
            reader.visit(tree)
            found |= reader.found
    return frozenset(found)
