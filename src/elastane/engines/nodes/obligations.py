"""Promises to end attempts on nodes that are away: each is a file, until the node has confirmed that it is done.

Whoever has to end an attempt and finds the hub or the node away writes one, so that the promise outlives both; the
hub tells a returning node about all of them before the node counts.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from elastane.engines.contract import Attempt
from elastane.engines.local.json_files import Lock, read_json
from elastane.engines.local.paths import ENDED, LOCK, Layout
from elastane.kit.atomic_files import sync, write_atomically

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,150}\.[0-9]{1,9}")


def is_joined(layout: Layout, node: str) -> bool:
    """Whether a node is on another machine."""
    return layout.joined(node).exists()


def is_attempt(name: str) -> bool:
    """Whether a text is the name of an attempt, and harmless as that of a file."""
    return _NAME.fullmatch(name) is not None


def promise(layout: Layout, node: str, attempt: str) -> None:
    """Write down, durably, that an attempt ends on a node; nothing for one that was never begun there."""
    if is_attempt(attempt) and attempt in (read_json(layout.begun(node)) or {}):
        folder = layout.obligations(node)
        folder.mkdir(exist_ok=True)
        write_atomically(folder / attempt, "", private=True, durable=True)


def promised(layout: Layout, node: str) -> set[str]:
    """The attempts that have to end on a node."""
    with contextlib.suppress(OSError):
        return {entry.name for entry in layout.obligations(node).iterdir() if is_attempt(entry.name)}
    return set()


def fulfilled(layout: Layout, node: str, attempt: str) -> None:
    """Forget the promise of an attempt: the node has said that nothing of it is left."""
    folder = layout.obligations(node)
    with contextlib.suppress(FileNotFoundError):
        (folder / attempt).unlink()
        sync(folder)


def is_stale(layout: Layout, name: str) -> bool:
    """Whether an attempt that a node still has is over on the head, or was never heard of there."""
    job, _, number = name.rpartition(".")
    folder: Path = layout.attempt(Attempt(job, int(number)))
    if not folder.is_dir():
        return True
    return (folder / ENDED).exists() and not Lock(folder / LOCK).held
