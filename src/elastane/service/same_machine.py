"""Tells whether two processes see the same machine and the same files: paths of one mean something to the other."""

from __future__ import annotations

import hashlib
import socket
from functools import cache
from pathlib import Path

_NAMES = ("/proc/sys/kernel/random/boot_id", "/etc/machine-id")


@cache
def this_machine() -> str:
    """A digest of the machine's names and of its root folder, which differs between containers."""
    root = Path("/").stat()
    parts = [socket.gethostname(), str(root.st_dev), str(root.st_ino), *map(_read, _NAMES)]
    return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:16]


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()[:200]
    except OSError:
        return ""
