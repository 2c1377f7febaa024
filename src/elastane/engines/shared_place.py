"""Finds out whether all nodes see the same folder, where nobody said where checkpoints lie.

A job that loses its node goes on elsewhere, from its last checkpoint.  So with several machines its checkpoints have to
lie where all of them look.  A folder of the head will do if a file that is written there has the same content on every
node; that a path exists there says nothing, for it may be another disk.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from elastane.kit.storage_urls import local_path

Probe = Callable[[Path], Mapping[str, str]]
"""Asks every node for the text of a file: by node, empty where there is none or nobody answers.

A node reads a name that it has never looked for, so no cache of a network file system can be in the way.
"""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SHOWN = 3


def blind_nodes(path: Path, probe: Probe) -> tuple[str, ...]:
    """Nodes that do not see what is written beneath ``path`` here, by name.

    Raises:
        OSError: nothing can be written there.
    """
    with _written(path) as (file, text):
        return tuple(sorted(node for node, seen in probe(file).items() if seen.strip() != text))


def shared_by_all(path: Path, probe: Probe) -> bool:
    """Whether every node that is asked sees what is written beneath ``path`` here."""
    return not blind_nodes(path, probe)


def refusal(path: Path, blind: tuple[str, ...]) -> str:
    """Why no job is run on several machines, and what to do; empty if no node is blind."""
    if not blind:
        return ""
    shown = ", ".join(blind[:_SHOWN]) + (f" and {len(blind) - _SHOWN} others" if len(blind) > _SHOWN else "")
    verb = "does" if len(blind) == 1 else "do"
    return (
        "there are several machines and no place for checkpoints that all of them reach: "
        f"{shown} {verb} not see {path}; say where with 'elastane up --checkpoints URL' (s3://, gs://, or a folder "
        "that is mounted everywhere), or with checkpoints: in the job"
    )


def needs_probe(checkpoints: str) -> Path | None:
    """The folder that has to be looked for on all nodes, if this place is one; URLs are the same everywhere."""
    return local_path(checkpoints) if checkpoints else None


@contextlib.contextmanager
def _written(path: Path) -> Iterator[tuple[Path, str]]:
    """A file with a text that nobody can know, for a while."""
    path.mkdir(parents=True, exist_ok=True)
    file, text = path / f".probe-{secrets.token_hex(8)}", secrets.token_hex(16)
    descriptor = os.open(file, _NEW, 0o644)
    try:
        with os.fdopen(descriptor, "w") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        yield file, text
    finally:
        file.unlink(missing_ok=True)
