"""Things that are no regular files, or not the same ones any more, in place of a job's reports."""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.live.scripts.poisons.place import Place, deed, put, replace


def _kinds_of_file(path: Path) -> Iterator[tuple[str, Any]]:
    """What may stand where a regular file belongs."""
    yield "pipe", os.mkfifo
    yield "link_to_zero", lambda other: other.symlink_to("/dev/zero")
    yield "link_to_itself", lambda other: other.symlink_to(path)
    yield "socket", _socket
    yield "device", lambda other: os.mknod(other, stat.S_IFCHR | 0o600, os.makedev(1, 5))


def _socket(path: Path) -> None:
    folder = Path.cwd()
    os.chdir(path.parent)  # names of sockets are short
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(folder)


def _in_place_of_journals(place: Place, kind: str) -> None:
    for path in place.journals:
        path.touch()
        replace(path, dict(_kinds_of_file(path))[kind])


@deed
def pipe(place: Place) -> None:
    """A pipe, on which whoever opens it waits."""
    _in_place_of_journals(place, "pipe")


@deed
def link_to_zero(place: Place) -> None:
    """A link to a file without end."""
    _in_place_of_journals(place, "link_to_zero")


@deed
def link_to_itself(place: Place) -> None:
    """A link that leads nowhere but here."""
    _in_place_of_journals(place, "link_to_itself")


@deed
def unix_socket(place: Place) -> None:
    """A socket."""
    _in_place_of_journals(place, "socket")


@deed
def device(place: Place) -> None:
    """A device, where the job may make one."""
    _in_place_of_journals(place, "device")


@deed
def folder_for_journal(place: Place) -> None:
    """A folder with the journal's name."""
    for path in place.journals:
        path.unlink(missing_ok=True)
        path.mkdir()


@deed
def closed_journal(place: Place) -> None:
    """A journal that nobody may read, then none."""
    for path in place.journals:
        path.touch()
        path.chmod(0)
        time.sleep(0.5)
        path.unlink()


@deed
def replaced_journal(place: Place) -> None:
    """Another file under the same name, over and over."""
    for number in range(200):
        for path in place.journals:
            put(path, b"x" * number)
        time.sleep(0.01)
