"""Reads and writes a pool as a JSON file with a version, checked value by value when it is read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastane.errors import ElastaneError
from elastane.kit.atomic_files import write_atomically
from elastane.models.history.experience import Experience
from elastane.models.history.pool import Pool
from elastane.textfiles import read_json

if TYPE_CHECKING:
    from pydantic import TypeAdapter

KEY = "elastane_history"
VERSION = 1


@cache
def _experience() -> TypeAdapter[Experience]:
    from pydantic import TypeAdapter  # only when a file is read or written: the import is slow

    return TypeAdapter(Experience)


def to_plain(past: Experience) -> dict[str, Any]:
    """Converts an experience to JSON values; configurations and points become short lists."""
    plain: dict[str, Any] = _experience().dump_python(past, mode="json", exclude_defaults=True)
    return plain


def from_plain(plain: object) -> Experience:
    """Reads an experience from JSON values; raises ``ValueError`` in plain words for anything else."""
    from pydantic import ValidationError

    try:
        return _experience().validate_python(plain)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "it"
        raise ValueError(f"{where}: {first['msg']}") from None


def save_pool(experiences: Iterable[Experience], path: Path) -> int:
    """Write a pool, one job per line; returns how many.  The old file stays until the new one is complete."""
    lines = [json.dumps(to_plain(past), allow_nan=False, sort_keys=True) for past in experiences]
    body = ",\n".join(lines)
    text = f'{{"{KEY}": {VERSION}, "experiences": [\n{body}\n]}}\n'
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text)
    return len(lines)


def load_pool(path: Path) -> Pool:
    """Read a pool; ``ElastaneError`` if the file is missing, damaged, of a later version or not a pool."""
    return Pool(read_experiences(path, read_document(path)))


def read_document(path: Path) -> Mapping[str, Any]:
    """Reads any JSON object from a file; ``ElastaneError`` if there is none."""
    try:
        document = read_json(path)
    except ElastaneError as error:
        raise ElastaneError(f"history: {error}") from None
    if not isinstance(document, dict):
        raise ElastaneError(f"history {path} holds a {type(document).__name__}, not an object")
    return document


def read_experiences(path: Path, document: Mapping[str, Any]) -> list[Experience]:
    """Reads the experiences of a pool's document; ``ElastaneError`` names the first bad one."""
    version = document.get(KEY)
    if version is None:
        raise ElastaneError(f"{path} is not a history; elastane history build RESULT.json -o FILE makes one")
    if version != VERSION:
        raise ElastaneError(
            f"{path} is a history of version {version!r:.40}; this Elastane reads version {VERSION}"
        )
    rows = document.get("experiences")
    if not isinstance(rows, list):
        raise ElastaneError(f"{path}: experiences is not a list")
    found = []
    for number, row in enumerate(rows):
        try:
            found.append(from_plain(row))
        except ValueError as error:
            raise ElastaneError(f"{path}: experience {number + 1}: {error}") from None
    return found
