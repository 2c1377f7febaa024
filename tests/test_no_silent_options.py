"""Whatever a user can say has a reader or is refused: fields of the job spec, options of policies, flags of verbs.

A new field fails here until ``READERS`` says where it is read (and it really is read there), or
``elastane.jobs.unsupported`` refuses it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path

import pytest
from pydantic import BaseModel

from elastane.jobs.sections import _models_in
from elastane.jobs.spec import JobSpec
from elastane.jobs.unsupported import UNSUPPORTED
from elastane.policies.registry import policy_class, policy_names
from helpers.typed_reads import reads

SOURCE = Path(__file__).parent.parent / "src" / "elastane"
CLI = SOURCE / "cli"

Link = tuple[str, str]
"""A room, and what is read in it: ``Class.attribute``, or ``function(Class)`` (``helpers.typed_reads``)."""

_DECLARED = ("service/control", "declared_by(JobSpec)")
_NEEDS = ("service/control", "JobSpec.worker")


READERS: Mapping[str, tuple[Link, ...]] = {
    **{
        name: (("service/control", f"JobSpec.{attribute}"),)
        for name, attribute in {
            "command": "command",
            "name": "name",
            "accelerators": "accelerators",
            "checkpoint": "checkpoint",
            "checkpoints": "checkpoints",
            "class": "klass",
            "priority": "priority",
            "weight": "weight",
            "preemptible": "preemptible",
            "tenant": "tenant",
            "python": "python",
            "retries": "retries",
        }.items()
    },
    "kind": (("service", "JobSpec.kind"),),
    "workers": (("service/control", "JobSpec.workers"),),
    "workers.min": (("service/control", "_Range.min"),),
    "workers.max": (("jobs", "_Range.max"), ("service/control", "JobSpec.max_workers")),
    "workers.resources": (("jobs", "WorkerRange.resources"), _NEEDS),
    "resources": (("jobs", "JobSpec.resources"), _NEEDS),
    "gpus": (("jobs", "Demand.gpus"), _NEEDS, ("service/control", "Resources.gpus")),
    "cpus": (("jobs", "Demand.cpus"), _NEEDS, ("service/control", "Resources.cpus")),
    "memory": (("jobs", "Demand.memory"), _NEEDS, ("service/control", "Resources.memory_gb")),
    "batch": (("jobs", "JobSpec.batch"), _DECLARED, ("train", "Declared.batch")),
    "batch.size": (("jobs", "BatchRange.size"), _DECLARED, ("train", "Batches.size")),
    "batch.max": (("jobs", "BatchRange.max"), _DECLARED, ("train", "Batches.max")),
    "batch.fixed": (("jobs", "BatchRange.fixed"), _DECLARED, ("train", "Batches.max")),
    "epochs": (("jobs", "JobSpec.epochs"), _DECLARED, ("train", "Declared.epochs")),
    "target": (("jobs", "JobSpec.target"), _DECLARED, ("train", "Goal.metric")),
    "target.metric": (("jobs", "Target.metric"), _DECLARED, ("train", "Goal.metric")),
    "target.value": (("jobs", "Target.value"), _DECLARED, ("train", "Goal.value")),
    "target.direction": (("jobs", "Target.falls"), _DECLARED, ("train", "Goal.direction")),
    "checkpoint.every": (("service/control", "Checkpoint.every"),),
    "deadline": (("jobs", "JobSpec.deadline"), ("service/control", "JobSpec.deadline_s")),
    "share_history": (("service", "JobSpec.share_history"),),
    "env": (("jobs", "JobSpec.env"), ("service/control", "JobSpec.variables")),
    "exported": (("jobs", "JobSpec.exported"), ("service/control", "JobSpec.variables")),
    "python.path": (("service/control", "Interpreter.path"),),
    "python.elastane": (("engines/local", "Interpreter.elastane"),),
    "python.torch": (("engines/local", "Interpreter.torch"),),
    "workdir": (("service", "JobSpec.workdir"),),
}
"""Fields of the spec, and the chain of reads by which each takes effect.  The last one is outside ``jobs``."""

_SHARED = {"gpus", "cpus", "memory"}
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


@pytest.mark.parametrize("path", dict.fromkeys(spec_fields()))
def test_every_field_of_a_spec_has_a_reader_or_is_refused(path: str) -> None:
    assert known(path), f"nothing reads {path}: name its reader in READERS, or refuse it in jobs/unsupported.py"


@pytest.mark.parametrize("path", READERS)
def test_each_reader_really_reads(path: str) -> None:
    missing = [f"{room}: {what}" for room, what in READERS[path] if what not in reads(SOURCE, room)]
    assert missing == []
    assert READERS[path][-1][0] != "jobs"


_READ_AS: Mapping[str, str] = {
    "class": "klass",
    "env": "variables",
    "exported": "variables",
    "resources": "worker",
    "workers.resources": "worker",
    "batch.fixed": "max",
    "target": "metric",
}
"""Fields whose last reader reads them by another name."""


@pytest.mark.parametrize("path", READERS)
def test_the_last_reader_reads_the_field_itself_and_not_only_what_it_is_kept_in(path: str) -> None:
    """Whoever reads all needs of a worker as one value may still pass over one of them."""
    last = READERS[path][-1][1]
    name = _READ_AS.get(path, path.rpartition(".")[2])
    assert name in last.rpartition(".")[2] or last == _DECLARED[1], f"{path}: {last} is not its reader"


def test_no_field_is_both_read_and_refused_and_none_is_imaginary() -> None:
    there = set(spec_fields())
    assert not READERS.keys() & UNSUPPORTED.keys()
    assert there >= UNSUPPORTED.keys()
    assert there >= READERS.keys() - _SHARED


def test_a_field_without_a_reader_would_be_noticed() -> None:
    class Wider(JobSpec):
        colour: str = "red"

    assert [path for path in spec_fields(Wider) if not known(path)] == ["colour"]


def test_a_word_that_is_spelled_alike_is_no_reader(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "module.py").write_text(
        "class Spec:\n    name: str\n    size: int\n    kind: str\n\n"
        "class Other:\n    name: str\n    spec: Spec\n\n"
        "def one(spec: Other, job) -> None:\n    spec.name, job.spec.size\n\n"
        "def two(job: Other | None) -> None:\n    job.spec.size\n    job.spec.kind = 1\n"
    )
    assert reads(tmp_path, "room") == {"Other.name", "Other.spec", "Spec.size"}


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
