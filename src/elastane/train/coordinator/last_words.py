"""Last words are read from a worker's log: its end in one line, for workers that cannot tell us themselves."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_NO_TRICKS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
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
    """The end of a regular file.  Its folder is the job's, who may have put a link or a pipe there: neither is opened.

    Whoever supervises may be allowed to read much more than the job, whose owner will see these words.
    """
    run = os.open(log.parent.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        folder = os.open(log.parent.name, os.O_RDONLY | os.O_DIRECTORY | _NO_TRICKS, dir_fd=run)
    finally:
        os.close(run)
    try:
        file = os.open(log.name, os.O_RDONLY | _NO_TRICKS, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
            return b""
        return os.pread(file, _TAIL_BYTES, max(0, facts.st_size - _TAIL_BYTES))
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
