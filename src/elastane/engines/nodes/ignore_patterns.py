"""Patterns that say which files of a directory stay at home, in the syntax of ``.gitignore``.

The rules are those of git: a later line wins over an earlier one, ``!`` takes a file in again, a slash at the beginning
or in the middle ties a pattern to the folder of its file, one at the end means folders only, ``**`` is any number of
folders.  What lies in a folder that is left out cannot be taken in again, for nobody looks into it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_CLASS_NAMES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "digit": "0-9",
    "lower": "a-z",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of an ignore file; ``place`` is the folder of the file, below which it holds, with a slash behind."""

    place: str
    matcher: re.Pattern[str]
    takes_in: bool
    folders_only: bool

    def matches(self, path: str, *, is_folder: bool) -> bool:
        """Whether a path, relative to the top of the tree, is one that the line is about."""
        if (self.folders_only and not is_folder) or not path.startswith(self.place):
            return False
        return self.matcher.fullmatch(path[len(self.place) :]) is not None


def read_patterns(text: str, place: str = "") -> tuple[Pattern, ...]:
    """The patterns of an ignore file that lies in the folder ``place`` (empty, or with a slash at its end)."""
    found = (_pattern(line.removesuffix("\r"), place) for line in text.removeprefix("\ufeff").split("\n"))
    return tuple(pattern for pattern in found if pattern is not None)


def is_left_out(patterns: Sequence[Pattern], path: str, *, is_folder: bool) -> bool | None:
    """Whether the last pattern that matches leaves a path out; None where none matches."""
    for pattern in reversed(patterns):
        if pattern.matches(path, is_folder=is_folder):
            return not pattern.takes_in
    return None


def _pattern(line: str, place: str) -> Pattern | None:
    line = _without_trailing_spaces(line)
    takes_in = line.startswith("!")
    line = line.removeprefix("!")
    if not line or (line.startswith("#") and not takes_in):
        return None
    folders_only = line.endswith("/")
    line = line.removesuffix("/")
    tied, line = "/" in line, line.removeprefix("/")
    if not line:
        return None
    words = _expression(line.split("/"))
    if words is None:
        return None
    return Pattern(place, re.compile(words if tied else f"(?:.*/)?{words}", re.DOTALL), takes_in, folders_only)


def _without_trailing_spaces(line: str) -> str:
    """A space at the end counts only behind a backslash."""
    bare = line.rstrip(" ")
    backslashes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if backslashes % 2 and len(bare) < len(line) else bare


def _expression(parts: Sequence[str]) -> str | None:
    """A regular expression for the parts between slashes; None for one that can match nothing."""
    found, last = "", len(parts) - 1
    for place, part in enumerate(parts):
        if part == "**" and place == last:
            found += ".+" if place else "[^/]*"  # alone it is no more than a star
        elif part == "**":
            found += "(?:.*/)?"
        else:
            words = _part(part)
            if words is None:
                return None
            found += words + ("/" if place < last else "")
    return found


def _part(part: str) -> str | None:
    found, at = "", 0
    while at < len(part):
        letter = part[at]
        if letter == "*":
            while part[at : at + 1] == "*":
                at += 1
            found += "[^/]*"
        elif letter == "[":
            chosen = _letters(part, at)
            if chosen is None:
                return None
            words, at = chosen
            found += words
        elif letter == "\\" and at + 1 == len(part):
            return None
        else:
            at += letter == "\\"
            found += "[^/]" if letter == "?" else re.escape(part[at])
            at += 1
    return found


def _letters(part: str, at: int) -> tuple[str, int] | None:
    """The expression for a choice of letters that begins at ``at``, and where it ends; None for one without an end."""
    at += 1
    negated = part[at : at + 1] in ("!", "^") and part[at : at + 1] != ""
    at += negated
    chosen, first = "", True
    while at < len(part) and (first or part[at] != "]"):
        first = False
        named = re.match(r"\[:([a-z]*):\]", part[at:])
        if named:
            if named[1] not in _CLASS_NAMES:
                return None
            chosen, at = chosen + _CLASS_NAMES[named[1]], at + named.end()
            continue
        low, at = _letter(part, at)
        high = low
        if part[at : at + 1] == "-" and part[at + 1 : at + 2] not in ("", "]"):
            high, at = _letter(part, at + 1)
        if not low or not high:
            return None
        if low <= high:
            chosen += f"{re.escape(low)}-{re.escape(high)}"
    if at >= len(part):
        return None
    return (f"(?!/)[{'^' if negated else ''}{chosen}]" if chosen else ("[^/]" if negated else "(?!)")), at + 1


def _letter(part: str, at: int) -> tuple[str, int]:
    if part[at] == "\\":
        at += 1
    return part[at : at + 1], at + 1
