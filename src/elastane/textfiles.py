"""Files that users hand in are read with limits: on bytes once unpacked, on lines and on the length of a line.

A gzip file of two megabytes may hold gigabytes, and a file may be one endless line.  Readers that go line by line keep
their memory small; readers that need a whole document refuse one that is larger than documents are.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from elastane.errors import ElastaneError

GZIP_MAGIC = b"\x1f\x8b"
LARGEST = 1 << 30
"""Bytes, once unpacked, of a file that is read line by line."""
LARGEST_WHOLE = 1 << 27
"""Bytes of a document that is held in memory as a whole."""
MOST_LINES = 10_000_000
LONGEST_LINE = 1 << 20
"""Characters."""
UNREADABLE = (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error)
"""What reading raises where a file is not the text, or not the gzip, that it should be."""


class _Limited(io.RawIOBase):
    """A stream that refuses to give more than so many bytes."""

    def __init__(self, raw: BinaryIO, path: Path, most: int) -> None:
        self._raw, self._path, self._most, self._given = raw, path, most, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer)
        data = self._raw.read(len(view))
        self._given += len(data)
        if self._given > self._most:
            size = f"{self._most / 1e6:,.0f} MB"
            raise ElastaneError(f"{self._path} holds more than {size} once unpacked; give a part of it")
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._raw.close()
        super().close()


def open_text(path: Path, most: int = LARGEST) -> io.TextIOWrapper:
    """Open the file as text, unpacked if it is gzip by content (names lie)."""
    if path.is_dir():
        raise ElastaneError(f"{path} is a directory; one file is expected")
    try:
        raw = cast(BinaryIO, gzip.GzipFile(path)) if is_packed(path) else path.open("rb")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ElastaneError(f"{path} cannot be read: {why}") from None
    # A byte-order mark at the start would otherwise become part of the first column's name.
    return io.TextIOWrapper(io.BufferedReader(_Limited(raw, path, most)), encoding="utf-8-sig", newline="")


def is_packed(path: Path) -> bool:
    """Tell whether a file is gzip by content."""
    with path.open("rb") as file:
        return file.read(2) == GZIP_MAGIC


def read_text(path: Path, characters: int = -1) -> str:
    """Read the first characters of a file, or all of it."""
    with open_text(path, LARGEST_WHOLE if characters < 0 else LARGEST) as file:
        try:
            return file.read(characters)
        except UNREADABLE as error:
            raise ElastaneError(f"{path} is not readable text: {error}") from None


def lines_of(file: io.TextIOWrapper, path: Path, most: int = MOST_LINES) -> Iterator[str]:
    """Line after line, as ``csv.reader`` takes them; refuses too many and endless ones."""
    count = 0
    while line := file.readline(LONGEST_LINE):
        count += 1
        if len(line) == LONGEST_LINE:
            raise ElastaneError(f"{path}, line {count}: longer than {LONGEST_LINE:,} characters")
        if count > most:
            raise ElastaneError(f"{path} has more than {most:,} lines; give a part of it")
        yield line


def read_json(path: Path) -> Any:
    """Read the document in a JSON file."""
    text = read_text(path)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ElastaneError(f"{path}, line {error.lineno}: not JSON: {error.msg}") from None
    except ValueError:  # Python's limit on digits
        raise ElastaneError(f"{path}: not JSON: a number has too many digits") from None
    except RecursionError:
        raise ElastaneError(f"{path}: not JSON: nested too deeply") from None
