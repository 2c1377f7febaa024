"""Whatever a user can say has a reader or is refused: fields of the job spec, options of policies, flags of verbs.

A new field fails here until ``READERS`` says where it is read (and it really is read there), or
``elastane.jobs.unsupported`` refuses it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest
from pydantic import BaseModel

from elastane.jobs.sections import _models_in
from elastane.jobs.spec import JobSpec
from elastane.jobs.unsupported import UNSUPPORTED
from elastane.policies.registry import policy_class, policy_names

SOURCE = Path(__file__).parent.parent / "src" / "elastane"
CLI = SOURCE / "cli"

Link = tuple[str, str]
"""A room, and an expression that stands in it (or the end of one: ``spec.name`` is found in ``job.spec.name``)."""

_WORKER = (("jobs", "resources.vector"), ("service", "spec.worker"))
_DECLARED = ("service/control", "declared_by(spec)")

READERS: Mapping[str, tuple[Link, ...]] = {
    "command": (("service/control", "spec.command"),),
    "name": (("service/control", "spec.name"),),
    "kind": (("service", "given.kind"),),
    "workers": (("service", "spec.workers"),),
    "workers.min": (("service", "workers.min"),),
    "workers.max": (("jobs", "workers.max"), ("service", "spec.max_workers")),
    "workers.resources": (("jobs", "workers.resources"), ("service", "spec.worker")),
    "resources": (("jobs", "self.resources"), ("service", "spec.worker")),
    "gpus": (("jobs", "self.gpus"), ("service", "worker.gpus")),
    "cpus": (("jobs", "self.cpus"), ("service/control", "job.worker")),
    "memory": (("jobs", "self.memory"), ("service/control", "worker.memory_gb")),
    "bandwidth": (("jobs", "self.bandwidth"), ("service/control", "job.worker")),
    "accelerators": (("service/control", "spec.accelerators"),),
    "batch": (("jobs", "spec.batch"), _DECLARED),
    "batch.size": (("jobs", "batch.size"), _DECLARED),
    "batch.max": (("jobs", "batch.max"), _DECLARED),
    "batch.fixed": (("jobs", "batch.fixed"), _DECLARED),
    "epochs": (("jobs", "spec.epochs"), _DECLARED),
    "target": (("jobs", "spec.target"), _DECLARED),
    "target.metric": (("jobs", "goal.metric"), _DECLARED),
    "target.value": (("jobs", "goal.value"), _DECLARED),
    "target.direction": (("jobs", "self.direction"), ("jobs", "goal.falls"), _DECLARED),
    "checkpoint": (("service/control", "spec.checkpoint"),),
    "checkpoint.every": (("service/control", "checkpoint.every"),),
    "checkpoints": (("service", "spec.checkpoints"), ("service/control", "spec.checkpoints")),
    "class": (("service/control", "spec.klass"),),
    "priority": (("service/control", "spec.priority"),),
    "weight": (("service/control", "spec.weight"),),
    "preemptible": (("service/control", "spec.preemptible"),),
    "deadline": (("jobs", "self.deadline"), ("service/control", "spec.deadline_s")),
    "tenant": (("service/control", "spec.tenant"),),
    "share_history": (("service", "spec.share_history"),),
    "env": (("jobs", "self.env"), ("service/control", "spec.variables")),
    "exported": (("jobs", "self.exported"), ("service/control", "spec.variables")),
    "python": (("service/control", "spec.python"),),
    "python.path": (("service/control", "python.path"),),
    "python.elastane": (("engines/local", "python.elastane"),),
    "python.torch": (("engines/local", "python.torch"),),
    "retries": (("service/control", "spec.retries"),),
    "workdir": (("service", "given.workdir"),),
}
"""Fields of the spec, and the chain of expressions by which each takes effect.  The last one is outside ``jobs``."""

_SHARED = {"gpus", "cpus", "memory", "bandwidth"}
"""Fields of a worker's needs, which may stand in two places of a spec and are read in one."""


def spec_fields(model: type[BaseModel] = JobSpec, prefix: str = "") -> Iterator[str]:
    """Every field of the spec and of its sections, by its path."""
    for name, info in model.model_fields.items():
        path = f"{prefix}{info.alias or name}"
        yield path
        for section in _models_in(info.annotation):
            yield from spec_fields(section, f"{path}.")


def known(path: str) -> bool:
    """Whether a field is refused, as a whole or as a part of its section, or has a declared reader."""
    refused = any(path == each or path.startswith(f"{each}.") for each in UNSUPPORTED)
    shared = "resources." in path and path.rpartition(".")[2] in _SHARED
    return refused or shared or path in READERS


@cache
def expressions(room: str) -> frozenset[str]:
    """Every expression that is read in a room, and what each ends with behind a dot."""
    found: set[str] = set()
    for path in sorted((SOURCE / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                found.add(ast.unparse(node))
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.update(_endings(node))
    return frozenset(found)


def _endings(node: ast.Attribute) -> Iterator[str]:
    ending, inside = node.attr, node.value
    while isinstance(inside, ast.Attribute):
        ending, inside = f"{inside.attr}.{ending}", inside.value
        yield ending
    if isinstance(inside, ast.Name):
        yield f"{inside.id}.{ending}"


@pytest.mark.parametrize("path", dict.fromkeys(spec_fields()))
def test_every_field_of_a_spec_has_a_reader_or_is_refused(path: str) -> None:
    assert known(path), f"nothing reads {path}: name its reader in READERS, or refuse it in jobs/unsupported.py"


@pytest.mark.parametrize("path", READERS)
def test_each_reader_really_reads(path: str) -> None:
    missing = [f"{room}: {what}" for room, what in READERS[path] if what not in expressions(room)]
    assert missing == []
    assert READERS[path][-1][0] != "jobs"


def test_no_field_is_both_read_and_refused_and_none_is_imaginary() -> None:
    there = set(spec_fields())
    assert not READERS.keys() & UNSUPPORTED.keys()
    assert there >= UNSUPPORTED.keys()
    assert there >= READERS.keys() - _SHARED


def test_a_field_without_a_reader_would_be_noticed() -> None:
    class Wider(JobSpec):
        colour: str = "red"

    assert [path for path in spec_fields(Wider) if not known(path)] == ["colour"]
    assert "spec.colour" not in expressions("service")


def _package(module: str) -> Path:
    """The file of a policy's module, or its folder where the policy is a package of its own."""
    _, _, rest = module.partition("elastane.policies.")
    head = rest.split(".")[0]
    folder = SOURCE / "policies" / head
    return folder if folder.is_dir() else folder.with_suffix(".py")


def attributes_read(place: Path) -> set[str]:
    """Names of all attributes that the code at a place reads."""
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    return {
        node.attr
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


@pytest.mark.parametrize("name", policy_names())
def test_every_option_of_a_policy_is_read_in_its_package(name: str) -> None:
    policy = policy_class(name)
    homes = {_package(base.__module__) for base in policy.__mro__ if "elastane.policies." in base.__module__}
    read = set().union(*map(attributes_read, homes))
    assert {field.name for field in fields(policy)} - read == set()


def unread_flags(text: str) -> list[str]:
    """Flags and arguments of verbs in a file that the verb does nothing with."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef):
            continue
        positional = [*node.args.posonlyargs, *node.args.args]
        given = positional[len(positional) - len(node.args.defaults) :]
        pairs = zip((*given, *node.args.kwonlyargs), (*node.args.defaults, *node.args.kw_defaults), strict=True)
        flags = {name.arg for name, default in pairs if default is not None and _is_flag(default)}
        found += [f"{node.name}: {flag}" for flag in sorted(flags - set(_names_read(node)))]
    return found


def _names_read(function: ast.FunctionDef) -> Iterator[str]:
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                yield node.id


def _is_flag(default: ast.expr) -> bool:
    """``typer.Option(…)``, or one that several verbs share: ``options.JSON``.  A flag's callback reads it itself."""
    words = ast.unparse(default)
    return words.startswith(("typer.Option(", "typer.Argument(", "options.")) and "callback=" not in words


@pytest.mark.parametrize("path", sorted(CLI.rglob("*.py")), ids=lambda path: str(path.relative_to(CLI)))
def test_every_flag_of_a_verb_is_read_by_it(path: Path) -> None:
    assert unread_flags(path.read_text(encoding="utf-8")) == []


def test_a_flag_that_is_not_read_would_be_noticed() -> None:
    verb = "def verb(a: int = typer.Option(1), b: bool = options.JSON, c=2):\n    print(a)\n    b = c"
    assert unread_flags(verb) == ["verb: b"]
