"""Converts a file, a text or plain values to a job spec, and back; every mistake is one readable error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from elastane.errors import ElastaneError
from elastane.jobs.problems import Problem, SpecError, shown
from elastane.jobs.spec import JobSpec
from elastane.jobs.wording import problems

_LARGEST = 1_000_000  # characters; a spec is a page, not a data set


def load_spec(path_or_text: Path | str) -> JobSpec:
    """The job spec in a YAML or JSON file, or in a text.

    A string with a line break, a ``key: value`` or an opening brace is a text, any other a path.
    """
    if isinstance(path_or_text, str) and _is_text(path_or_text):
        return parse_spec(_values(path_or_text, "job spec"))
    path = Path(path_or_text)
    return parse_spec(_values(read_text(path), str(path)), str(path))


def parse_spec(values: object, source: str = "") -> JobSpec:
    """The job spec in plain values, as from a request; ``source`` stands in front of every complaint."""
    if not isinstance(values, dict):
        given = "nothing" if values is None else shown(values)
        raise SpecError([Problem("", f"job spec: got {given}; expected fields, at least 'command: …'")], source)
    try:
        return JobSpec.model_validate(values)
    except ValidationError as error:
        raise SpecError(problems(error, JobSpec), source) from None


def dump_yaml(spec: JobSpec) -> str:
    """The spec as a person would write it: only what differs from the defaults."""
    from elastane.jobs.yamlio import write_yaml

    return write_yaml(spec.model_dump(mode="json", by_alias=True, exclude_defaults=True))


def dump_json(spec: JobSpec) -> str:
    """The spec in full, defaults included, so that a stored job keeps its meaning when defaults change."""
    return spec.model_dump_json(by_alias=True)


def _is_text(given: str) -> bool:
    return "\n" in given or ": " in given or given.lstrip().startswith("{")


def read_text(path: Path) -> str:
    """The text of a spec's file; ``ElastaneError`` if it cannot be read or is too long for one."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_LARGEST + 1)
    except UnicodeDecodeError:
        raise ElastaneError(f"{path}: not a text file (UTF-8)") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ElastaneError(f"{path}: cannot be read: {reason.lower()}") from None
    _check_length(text, str(path))
    return text


def _check_length(text: str, source: str) -> None:
    if len(text) > _LARGEST:
        raise ElastaneError(f"{source}: longer than {_LARGEST:,} characters; that is not a job spec")


def _values(text: str, source: str) -> Any:
    _check_length(text, source)
    if text.lstrip().startswith("{"):
        try:  # most JSON is YAML, but not its escapes for rare characters
            return json.loads(text, object_pairs_hook=_unique)
        except (ValueError, RecursionError):
            pass
    from elastane.jobs.yamlio import read_yaml  # a service gets plain values, and starts sooner without

    return read_yaml(text, source)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError  # the YAML reader will say which key, and on which line
    return values
