"""Sends a working directory to a service as a package, unless the service has it already."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elastane.engines.nodes.package_archive import write_archive
from elastane.engines.nodes.package_tree import look_at
from elastane.service.messages import PackagedCode

if TYPE_CHECKING:
    from elastane.client.client import Client

Progress = Callable[[str, int, int], object]
"""Hears what is being done (``packing``, ``sending``), how many bytes of it are done, and of how many."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What to submit a job with, and what its owner should know."""

    code: PackagedCode
    notes: tuple[str, ...] = ()
    uploaded: bool = True
    """Whether the service did not have it."""


def _quiet(doing: str, done: int, whole: int) -> None:
    """Nobody watches."""


def send_directory(
    client: Client, directory: str | Path, workdir: str | None = None, progress: Progress = _quiet
) -> Sent:
    """Pack a directory and send it; ``workdir``, where the job runs, may lie in it or be packed instead of it.

    Raises:
        ElastaneError: it is too large, cannot be read, or is refused by the service.
    """
    top, inner = _top(Path(directory), workdir)
    tree = look_at(top)
    done, whole = 0, tree.bytes

    def packed(count: int) -> None:
        nonlocal done
        done += count
        progress("packing", done, whole)

    with tempfile.TemporaryFile(prefix="elastane-package-") as file:
        digest = write_archive(tree, file, packed)
        there = client.has_package(digest)
        if not there:
            client.send_package(digest, file, lambda sent, size: progress("sending", sent, size))
    return Sent(PackagedCode(digest=digest, subdirectory=inner, top=str(top)), tree.notes, not there)


def _top(directory: Path, workdir: str | None) -> tuple[Path, str]:
    """What to pack, and where in it the job runs."""
    # As the service does: not resolved.
    top = Path(os.path.abspath(directory))  # noqa: PTH100
    place = Path(os.path.abspath(top / (workdir or "")))  # noqa: PTH100
    if place == top or not place.is_relative_to(top):
        return place, ""
    return top, str(place.relative_to(top))
