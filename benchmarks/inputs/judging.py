"""What a verb may answer to a damaged file: a result, or a refusal in one sentence that names the file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.inputs.running import MEMORY_MB, Ran
from benchmarks.inputs.samples import Kind

TRACE, LATE, LARGE, CODE, SENTENCE, STRAY, REFUSED = (
    "stack traces",
    "longer than 60 s",
    "more than 1 GB",
    "other exit codes than the documented ones",
    "refusals that are not a sentence with the file's name",
    "warnings of Python's on the screen",
    "valid files that were refused",
)
FAULTS = (TRACE, LATE, LARGE, CODE, SENTENCE, STRAY, REFUSED)
_LONGEST = 1500
_PLACE = re.compile(
    r"line \d+|column|experience \d+|row \d+|device \S+:|job \S+:|field|\b[a-z_]+(\.\w+)* (is|must|has)\b|: got "
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x9b\u202a-\u202e\u2066-\u2069]")


def faults(kind: Kind, spoiled: str, ran: Ran, whole: bool = False) -> Iterator[str]:
    """Every promise that was broken; ``whole`` files must be accepted."""
    if whole and ran.code == 2:
        yield REFUSED
    if "Traceback (most recent call last)" in ran.err:
        yield TRACE
    if ran.late:
        yield LATE
    if ran.peak_mb > MEMORY_MB or "MemoryError" in ran.err:
        yield LARGE
    if ran.code not in kind.codes and not ran.late:
        yield CODE
    if ran.code == 2 and not _sentence(kind, spoiled, ran.err):
        yield SENTENCE
    if "Warning: " in ran.err:
        yield STRAY


def _sentence(kind: Kind, spoiled: str, text: str) -> bool:
    """One line, of a spec a line per mistake; each names the file, none holds control characters."""
    lines = [line for line in text.rstrip("\n").split("\n") if not line.startswith("warning: ")]
    if not lines or not lines[0].startswith("error: ") or (len(lines) > 1 and kind.group != "specs"):
        return False
    return all(_named(spoiled, line) and len(line) < _LONGEST and not _CONTROL.search(line) for line in lines)


def _named(spoiled: str, line: str) -> bool:
    """The file itself or the folder in which it lies."""
    folder, _, file = spoiled.rpartition("/")
    return file in line or (bool(folder) and folder in line)


def placed(ran: Ran) -> bool:
    """Whether a refusal says where in the file."""
    return ran.code == 2 and bool(_PLACE.search(ran.err))
