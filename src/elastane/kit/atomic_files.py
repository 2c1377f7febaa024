"""Atomic file writes: a reader finds the earlier content or the new one, never a part of it.

The new content is written beside the file and renamed over it.  ``durable`` adds that it survives a power cut
once the call has returned; without it, only a crash of the process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_atomically(path: Path, content: str | bytes, *, private: bool = False, durable: bool = False) -> None:
    """Replace a file's content in one step; text is written as UTF-8."""
    with replacing(path, private=private, durable=durable) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path, *, private: bool = False, durable: bool = False) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of ``path`` at the end, unless there was an exception.

    ``private``: only its owner may read it.
    """
    # Processes and threads that write the same file at once each have a part of their own.
    part = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_native_id()}")
    part.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(part, flags, 0o600 if private else 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)


def sync(path: Path) -> None:
    """Return once a file, or the names in a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
