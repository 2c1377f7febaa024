"""Finds out what of a working directory belongs into its package: files, folders and links, without what stays at home.

What stays at home: what ``.gitignore`` and ``.elastaneignore`` say (in any folder, the second read after the first),
caches, environments, repositories, and folders that Elastane itself has written (a home, a run, a checkpoint).
A pattern with ``!`` takes any of these in again.  Links are never followed.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from elastane.engines.nodes.ignore_patterns import Pattern, is_left_out, read_patterns
from elastane.engines.nodes.package_links import leading_out
from elastane.errors import ElastaneError

LARGEST_BYTES = 512 << 20
"""Of all files of a package together, as they lie in the directory."""
MOST_ENTRIES = 50_000
MOST_LINKS = 5_000
IGNORE_FILES = (".gitignore", ".elastaneignore")
DEFAULT_PATTERNS = (
    *(".git", ".hg", ".svn", ".venv/", "__pycache__/", ".elastane/"),
    *(".mypy_cache/", ".pytest_cache/", ".ruff_cache/", ".ipynb_checkpoints/"),
)
_SIGNS = (
    frozenset({"pyvenv.cfg"}),  # a virtual environment, whatever its name
    frozenset({"elastane.db"}),  # a home of ours
    frozenset({"plans.jsonl"}),  # a run of ours
    frozenset({"manifest.json", "tensors.safetensors", "tree.json"}),  # a checkpoint of ours
)
"""Files by which a folder is known that nobody wants to send along."""
_LONGEST_IGNORE_FILE = 1 << 20
_NAMED = 3
"""Folders and files that a complaint names."""


class PackageError(ElastaneError):
    """A directory cannot be packed, or a package cannot be unpacked; the message says why and what to do."""


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One member of a package: a path with slashes, and what lies there."""

    path: str
    kind: str
    """``file``, ``folder`` or ``link``."""
    executable: bool = False
    bytes: int = 0
    target: str = ""
    """Where a link leads, as it is written."""


@dataclass(frozen=True, slots=True)
class Tree:
    """What goes into the package of ``top``, sorted by path, and what its owner should know about the rest."""

    top: Path
    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """The size of all files together."""
        return sum(entry.bytes for entry in self.entries)


def look_at(top: Path, largest_bytes: int = LARGEST_BYTES, most_entries: int = MOST_ENTRIES) -> Tree:
    """What a package of this directory holds.

    Raises:
        PackageError: it is too much, or cannot be read.
    """
    walk = _Walk(top, most_entries)
    try:
        walk.into("", read_patterns("\n".join(DEFAULT_PATTERNS)))
    except OSError as error:
        raise PackageError(f"{error.filename or top} cannot be packed: {error.strerror or error}") from None
    size = sum(entry.bytes for entry in walk.entries)
    if size > largest_bytes:
        raise PackageError(
            f"{top} has {_megabytes(size)} in files, and a package has at most {_megabytes(largest_bytes)}; "
            f"largest: {_largest(walk.entries)}. Name what jobs do not need in .elastaneignore, "
            "or submit with --shared if every node sees the directory under the same path"
        )
    links = {entry.path: entry.target for entry in walk.entries if entry.kind == "link"}
    if len(links) > MOST_LINKS:
        raise PackageError(
            f"{top} has {len(links):,} links, and a package at most {MOST_LINKS:,}; see .elastaneignore"
        )
    out = leading_out(links)
    kept = tuple(sorted(entry for entry in walk.entries if entry.path not in set(out)))
    return Tree(top, kept, tuple(_notes(out, walk.special)))


@dataclass(slots=True)
class _Walk:
    top: Path
    most: int
    entries: list[Entry] = field(default_factory=list)
    special: list[str] = field(default_factory=list)

    def into(self, folder: str, patterns: Sequence[Pattern]) -> None:
        """Look at one folder (a path with a slash behind, or empty) and at those in it."""
        ahead = [(folder, tuple(patterns))]
        while ahead:
            folder, above = ahead.pop()
            with os.scandir(self.top / folder) as found:
                here = sorted(found, key=lambda entry: entry.name)
            rules = (*above, *self._own_rules(folder, here))
            for entry in here:
                path = f"{folder}{entry.name}"
                if self._stays_at_home(entry, path, rules):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    ahead.append((f"{path}/", rules))
                self._take(entry, path)

    def _own_rules(self, folder: str, here: Sequence[os.DirEntry[str]]) -> tuple[Pattern, ...]:
        there = {entry.name for entry in here if entry.is_file(follow_symlinks=False)}
        texts = (_text(self.top / folder / name) for name in IGNORE_FILES if name in there)
        return tuple(pattern for text in texts for pattern in read_patterns(text, folder))

    def _stays_at_home(self, entry: os.DirEntry[str], path: str, rules: Sequence[Pattern]) -> bool:
        is_folder = entry.is_dir(follow_symlinks=False)
        said = is_left_out(rules, path, is_folder=is_folder)
        return said if said is not None else is_folder and _is_recognised(self.top / path)

    def _take(self, entry: os.DirEntry[str], path: str) -> None:
        if len(self.entries) >= self.most:
            counted = Counter(known.path.partition("/")[0] for known in self.entries)
            most = ", ".join(f"{name} ({count:,})" for name, count in counted.most_common(_NAMED))
            raise PackageError(
                f"{self.top} has more than {self.most:,} files; most lie in {most}. "
                "Name what jobs do not need in .elastaneignore, or submit with --shared"
            )
        if not _is_text(path):
            raise PackageError(
                f"the name {path!a} is not valid UTF-8, which a package needs; rename it, or name its folder in "
                ".elastaneignore"
            )
        facts = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(facts.st_mode):
            self.entries.append(Entry(path, "folder"))
        elif stat.S_ISLNK(facts.st_mode):
            target = str((self.top / path).readlink())
            self.entries.append(Entry(path, "link", target=target if _is_text(target) else "/"))
        elif stat.S_ISREG(facts.st_mode):
            self.entries.append(Entry(path, "file", bool(facts.st_mode & stat.S_IXUSR), facts.st_size))
        else:
            self.special.append(path)


def _is_recognised(folder: Path) -> bool:
    return any(all((folder / name).is_file() for name in names) for names in _SIGNS)


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_LONGEST_IGNORE_FILE).decode(errors="replace")


def _notes(out: Sequence[str], special: Sequence[str]) -> list[str]:
    notes = []
    if out:
        notes.append(f"left out of the package, for they lead out of the directory: links {_some(out)}")
    if special:
        notes.append(f"left out of the package, for they are no files: {_some(special)}")
    return notes


def _some(paths: Sequence[str]) -> str:
    more = len(paths) - _NAMED
    return ", ".join(paths[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _largest(entries: Sequence[Entry]) -> str:
    """The folders of two levels, or files, with the most in them."""
    sizes: Counter[str] = Counter()
    for entry in entries:
        if entry.bytes:
            parts = entry.path.split("/")
            sizes["/".join(parts[:2]) + ("/" if len(parts) > 2 else "")] += entry.bytes
    largest = sorted(sizes.items(), key=lambda found: (-found[1], found[0]))[:_NAMED]
    return ", ".join(f"{name} ({_megabytes(size)})" for name, size in largest)


def _megabytes(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB" if size >= 1 << 20 else f"{size:,} bytes"
