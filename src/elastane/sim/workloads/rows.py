"""Lines of a trace file with their numbers, and typed access to their columns.

Every mistake in a row becomes a ``BadRow`` that knows line, column and value; whether it stops the reading or
is only counted is decided by ``load``, not here.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from elastane.errors import ElastaneError
from elastane.textfiles import UNREADABLE, lines_of, open_text

_MOST = 10**12
"""The largest whole number that anything in a trace can be."""
_MISSING = frozenset({"", "none", "null", "na", "nan", "nat"})


class BadRow(Exception):
    """One value of one row that cannot be what its column says."""

    def __init__(self, line: int | str, column: str, value: object, reason: str) -> None:
        where = f"line {line}" if isinstance(line, int) else line
        super().__init__(f"{where}, column {column}: {value!r:.200} {reason}")


@dataclass(frozen=True, slots=True)
class Row:
    """One record: its line, the position of every column, and the texts."""

    line: int
    columns: Mapping[str, int]
    values: Sequence[str]

    def bad(self, column: str, reason: str) -> BadRow:
        """The error for this row's ``column``."""
        return BadRow(self.line, column, self.text(column), reason)

    def text(self, column: str) -> str:
        """The column's text without surrounding blanks."""
        return self.values[self.columns[column]].strip()

    def optional(self, column: str) -> str | None:
        """The column's text, or None where the column or its value is absent (empty, None, NA)."""
        if column not in self.columns:
            return None
        text = self.text(column)
        return None if text.lower() in _MISSING else text

    def number(self, column: str, least: float = 0.0) -> float:
        """A finite number that is at least ``least``."""
        try:
            value = float(self.text(column))
        except ValueError:
            raise self.bad(column, "is not a number") from None
        if not math.isfinite(value) or value < least:
            raise self.bad(column, f"is not a finite number from {least:g} up")
        return value

    def whole(self, column: str, least: int = 0) -> int:
        """A whole number that is at least ``least``; 8.0 counts as 8, because spreadsheets write it so."""
        value = self.number(column, least)
        if value != int(value):
            raise self.bad(column, "is not a whole number")
        if value > _MOST:
            raise self.bad(column, f"is above {_MOST:,}")
        return int(value)

    def wall(self, column: str) -> datetime:
        """A date and time as it stands, with a zone only if the text names one."""
        try:
            return datetime.fromisoformat(self.text(column))
        except ValueError:
            raise self.bad(column, "is not a date and time") from None

    def moment(self, column: str, zone: tzinfo = UTC) -> datetime:
        """A date and time in a zone; where the text names none, ``zone`` is meant."""
        moment = self.wall(column)
        return moment if moment.tzinfo else moment.replace(tzinfo=zone)


def read_cells(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every line that is not blank."""
    with open_text(path) as file:
        if delimiter == "\t":  # shell commands in a cell may hold a lone quote
            lines = csv.reader(lines_of(file, path), delimiter=delimiter, quoting=csv.QUOTE_NONE)
        else:
            lines = csv.reader(lines_of(file, path), delimiter=delimiter)
        try:
            for cells in lines:
                if len(cells) > 1 or (cells and cells[0].strip()):
                    yield lines.line_num, cells
        except (csv.Error, *UNREADABLE) as error:
            where = f"{path}, after line {lines.line_num}"
            raise ElastaneError(f"{where}: not readable as text in columns: {error}") from None
