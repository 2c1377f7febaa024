"""What a worker's log says about its end, in one line, for workers that cannot tell us themselves."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TAIL_BYTES = 1 << 16
_LONGEST_MESSAGE = 20
"""Lines of an exception's message; what stands further up has been survived."""
_LONGEST_LINE = 300


def last_words(log: Path) -> str:
    """The exception that was printed last or, without one, the last line; empty if there is nothing."""
    try:
        text = _tail(log).decode(errors="replace")
    except OSError:
        return ""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return (_exception(lines) or (lines[-1].strip() if lines else ""))[:_LONGEST_LINE]


def _tail(log: Path) -> bytes:
    """The end of a regular file, reached by no link: the folder is the worker's, who may put anything there."""
    folder = os.open(log.parent.parent, _FOLDER)
    try:
        inner = os.open(log.parent.name, _FOLDER, dir_fd=folder)
        os.close(folder)
        folder = inner
        file = os.open(log.name, _FILE, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        facts = os.fstat(file)
        regular = stat.S_ISREG(facts.st_mode)
        return os.pread(file, _TAIL_BYTES, max(0, facts.st_size - _TAIL_BYTES)) if regular else b""
    finally:
        os.close(file)


def _exception(lines: list[str]) -> str | None:
    """The line that names the last exception; its message may go on below."""
    starts = [i for i, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    if not starts:
        return None
    below = (i for i in range(starts[-1] + 1, len(lines)) if not lines[i].startswith(" "))
    named = next(below, None)
    return lines[named] if named is not None and len(lines) - named <= _LONGEST_MESSAGE else None
