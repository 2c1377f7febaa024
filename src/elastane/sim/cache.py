"""Caches results on disk under a digest of all that determines them: inputs, their contents, and the code."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import elastane
from elastane.kit.atomic_files import replacing
from elastane.sim.result import RunResult
from elastane.sim.serialize import result_from_plain, result_to_plain, spec_to_plain
from elastane.sim.spec import RunSpec


def cache_directory() -> Path:
    """Returns ``$XDG_CACHE_HOME/elastane/sim``, by default under ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "elastane" / "sim"


@cache
def code_digest() -> str:
    """Returns a digest that changes with any source or data file of the package, and with NumPy and SciPy."""
    digest = hashlib.sha256()
    root = Path(str(files(elastane)))
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".json"):
            digest.update(str(path.relative_to(root)).encode())
            digest.update(path.read_bytes())
    for library in ("numpy", "scipy"):
        digest.update(f"{library} {version(library)}".encode())
    return digest.hexdigest()


@cache
def _content_digest(path: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(str(file.relative_to(path)).encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def cache_key(spec: RunSpec) -> str:
    """Returns the digest under which the result of a run is cached."""
    parts = [json.dumps(spec_to_plain(spec), sort_keys=True), code_digest()]
    for text in (spec.workload.split(",")[0], spec.workload, spec.profiles, spec.history):
        if text and Path(text).exists():
            parts.append(_content_digest(Path(text).resolve()))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def load_result(spec: RunSpec) -> RunResult | None:
    """Returns the cached result, or None; a damaged file counts as none."""
    path = cache_directory() / f"{cache_key(spec)}.json.gz"
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return result_from_plain(json.load(file))
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        return None


def save_result(spec: RunSpec, result: RunResult) -> None:
    """Caches a result; a cache that cannot be written is not an error."""
    directory = cache_directory()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{cache_key(spec)}.json.gz"
        with (
            replacing(path, private=True) as raw,
            gzip.open(raw, "wt", encoding="utf-8", compresslevel=3) as file,
        ):
            json.dump(result_to_plain(result), file)
    except OSError:
        return
