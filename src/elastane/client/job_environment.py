"""Collects what a job takes along from where it is submitted: the interpreter its command finds here, and variables.

This only makes sense where the service sees the same files; elsewhere a job runs with the service's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elastane import __version__
from elastane.client.exported_variables import exported, read_export
from elastane.client.probe_interpreter import probe
from elastane.jobs.interpreters import find_interpreter
from elastane.jobs.loading import parse_spec
from elastane.jobs.secrecy import looks_secret
from elastane.jobs.spec import JobSpec
from elastane.jobs.wrapping import unwrap
from elastane.service.messages import ServerInfo
from elastane.service.same_machine import this_machine


@dataclass(frozen=True, slots=True)
class Taken:
    """The values of a spec with what was taken along, and what its owner should know."""

    values: dict[str, Any]
    warnings: tuple[str, ...] = ()


def sees_our_files(server: ServerInfo) -> bool:
    """Whether paths mean the same to a service as to us."""
    return server.machine == this_machine()


def take_along(
    values: Mapping[str, Any],
    directory: str | Path,
    export: Iterable[str] = (),
    environment: Mapping[str, str] = os.environ,
) -> Taken:
    """Add the interpreter and the variables that a job would have if its command were run here, now."""
    spec, wish = parse_spec(dict(values)), read_export(export)
    chosen = exported(wish, environment)
    warnings = [*_left_out(chosen.left_out), *_recorded(spec)]
    filled = dict(values)
    if chosen.variables or spec.exported:
        filled["exported"] = {**chosen.variables, **spec.exported}
    if not wish.nothing or spec.python is not None:
        place = Path(directory) / (spec.workdir or "")
        python, doubts = _interpreter(spec, place, {**environment, **chosen.variables, **spec.variables})
        filled |= {"python": python} if python else {}
        warnings += doubts
    return Taken(filled, tuple(warnings))


def _interpreter(
    spec: JobSpec, directory: Path, environment: Mapping[str, str]
) -> tuple[dict[str, Any] | None, list[str]]:
    """The section ``python`` of a spec; None where the command runs no Python script, or finds no interpreter."""
    what = unwrap(spec.command)
    own = spec.python.path if spec.python else None
    variables = {**environment, **what.environment}
    path = str(directory / own) if own else find_interpreter(what.launcher, directory, variables)
    if not what.script or path is None:
        return None, []
    found = probe(path, variables, directory)
    doubts = [f"{path} could not be asked what it has: {found.problem}"] if found.problem else []
    if found.elastane and found.elastane != __version__:
        doubts.append(
            f"{path} has elastane {found.elastane}, this is {__version__}; adaptive jobs need the same"
        )
    return {"path": path, "elastane": found.elastane, "torch": found.torch}, doubts


def _left_out(names: tuple[str, ...]) -> list[str]:
    return [f"not exported, because they look like secrets: {', '.join(names)}"] if names else []


def _recorded(spec: JobSpec) -> list[str]:
    names = sorted(name for name, value in spec.env.items() if looks_secret(name, value))
    if not names:
        return []
    return [f"env: {', '.join(names)} will be stored with the job, where admins can read it; a file is safer"]
