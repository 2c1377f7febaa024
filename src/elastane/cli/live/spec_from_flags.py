"""Merges a file, flags and a command into the plain values of a job spec.  Flags override the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elastane.errors import ElastaneError


@dataclass(frozen=True, slots=True)
class Flags:
    """What was said on the command line; None where nothing was."""

    name: str | None = None
    workers: str | None = None
    kind: str | None = None
    gpus: int | None = None
    batch: int | None = None
    epochs: int | None = None
    klass: str | None = None
    priority: int | None = None
    deadline: str | None = None
    tenant: str | None = None
    env: Sequence[str] = ()
    retries: int | None = None
    workdir: str | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """A spec before it is checked: its values, where they come from, and what the owner should know."""

    values: dict[str, Any]
    source: str = ""
    warnings: tuple[str, ...] = ()
    export: str = ""
    """What a batch script says about variables to take along."""


def draft(path: str | None, flags: Flags, command: Sequence[str]) -> Draft:
    """What a file (if any), flags and a command say together."""
    if path is None and not command:
        raise ElastaneError(
            "nothing to submit; name a job spec, or put a command behind --: elastane submit -- python train.py"
        )
    written = Draft({}) if path is None else _from_file(Path(path))
    values = {**written.values, **_plain(flags), **_merged(written.values, flags)}
    if command:
        values["command"] = list(command)
    return Draft(values, written.source, written.warnings, written.export)


def _from_file(path: Path) -> Draft:
    from elastane.jobs.loading import read_text
    from elastane.jobs.problems import Problem, SpecError, shown
    from elastane.jobs.sbatch import is_script, read_script
    from elastane.jobs.yamlio import read_yaml

    if path.suffix == ".py":
        raise ElastaneError(f"{path} is a program, not a job spec; to run it: elastane submit -- python {path}")
    text = read_text(path)
    if is_script(text):
        script = read_script(text, str(path.absolute()))
        return Draft(script.values, str(path), script.warnings, script.export)
    values = read_yaml(text, str(path))
    if not isinstance(values, dict):
        given = "nothing" if values is None else shown(values)
        problem = Problem("", f"job spec: got {given}; expected fields, at least 'command: …'")
        raise SpecError([problem], str(path))
    return Draft(values, str(path))


def _plain(flags: Flags) -> dict[str, Any]:
    """Flags that replace a field as a whole."""
    said = {
        "name": flags.name,
        "kind": flags.kind,
        "epochs": flags.epochs,
        "class": flags.klass,
        "priority": flags.priority,
        "deadline": flags.deadline,
        "tenant": flags.tenant,
        "retries": flags.retries,
        "workdir": flags.workdir,
    }
    return {field: value for field, value in said.items() if value is not None}


def _merged(values: dict[str, Any], flags: Flags) -> dict[str, Any]:
    """Flags that set a part of a field and keep the rest of it."""
    changed: dict[str, Any] = {}
    if flags.workers is not None:
        changed["workers"] = {**_section(values, "workers", "resources"), **_range(flags.workers)}
    if flags.gpus is not None:
        changed.update(_with_gpus({**values, **changed}, flags.gpus))
    if flags.batch is not None:
        changed["batch"] = {**_section(values, "batch"), "size": flags.batch}
    if flags.env:
        changed["env"] = {**_section(values, "env"), **dict(map(_setting, flags.env))}
    return changed


def _with_gpus(values: dict[str, Any], gpus: int) -> dict[str, Any]:
    workers = _section(values, "workers")
    if "resources" in workers:  # the file may say it in either place, and a spec may say it only once
        return {"workers": {**workers, "resources": {**_section(workers, "resources"), "gpus": gpus}}}
    return {"resources": {**_section(values, "resources"), "gpus": gpus}}


def _section(values: dict[str, Any], field: str, *only: str) -> dict[str, Any]:
    """The parts of a field that the file wrote as a section; all of them, or only some."""
    written = values.get(field)
    if not isinstance(written, dict):
        return {}
    return {part: value for part, value in written.items() if not only or part in only}


def _range(written: str) -> dict[str, int]:
    found = re.fullmatch(r"([0-9]{1,7})(?:(:)([0-9]{1,7})?)?", written)
    if found is None:
        raise ElastaneError(
            f"--workers: got {written!r}; expected a number such as 2, or a range such as 1:8 or 2:"
        )
    low, colon, high = found.groups()
    if not colon:
        high = low
    return {"min": int(low), **({"max": int(high)} if high else {})}


def _setting(written: str) -> tuple[str, str]:
    name, equals, value = written.partition("=")
    if not equals or not name:
        raise ElastaneError(f"--env: got {written!r}; expected NAME=VALUE")
    return name, value
