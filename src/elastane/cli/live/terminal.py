"""Prepares output for the terminal: cleaned text, tables that fit, JSON.  Colours only where a person looks."""

from __future__ import annotations

import json
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.text import Text

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that steer a terminal or hide in a line, among them escapes and right-to-left marks."""

_LEAST_LAST = 24
"""Letters of the last column that other columns have to make room for."""


def clean(text: object) -> str:
    """Text from elsewhere on one line, unable to steer the terminal: what is hidden is written as an escape."""
    shown = (" " if letter in "\n\r\t" else letter for letter in str(text))
    return "".join(
        letter.encode("unicode_escape").decode() if unicodedata.category(letter) in _HIDDEN else letter
        for letter in shown
    )


def clean_lines(text: object) -> str:
    """The same for a text that may have several lines."""
    return "\n".join(clean(line) for line in str(text).split("\n"))


def is_terminal() -> bool:
    """Whether a person reads standard output."""
    return sys.stdout.isatty()


def document(value: BaseModel | Sequence[BaseModel] | Mapping[str, Any]) -> str:
    """One JSON document; nothing in it is altered but that it is plain ASCII and has no NaN."""
    return json.dumps(value, indent=2, default=_plain)


def line(value: BaseModel | Mapping[str, Any]) -> str:
    """One JSON document on one line."""
    return json.dumps(value, default=_plain)


def say(text: str) -> None:
    """A hint or a warning: not part of the answer, so on standard error."""
    typer.echo(clean_lines(text), err=True)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.  The highest rank goes first when the terminal is narrow; rank 0 always stays."""

    heading: str
    rank: int = 0
    right: bool = False


def table(columns: Sequence[Column], rows: Iterable[Sequence[object]], width: int | None = None) -> list[str]:
    """The lines of a table, heading first; without ``width`` as wide as it needs to be."""
    from rich.cells import cell_len

    cells = [[column.heading for column in columns], *([clean(cell) for cell in row] for row in rows)]
    widths = [max(cell_len(row[i]) for row in cells) for i in range(len(columns))]
    kept = list(range(len(columns)))
    # The last column may be cut short by the terminal, so it counts with what it needs at least.
    needs = [*widths[:-1], min(widths[-1], _LEAST_LAST)]
    while width is not None and sum(needs[i] + 2 for i in kept) - 2 > width:
        worst = max(kept, key=lambda i: columns[i].rank)
        if not columns[worst].rank:
            break
        kept.remove(worst)
    return ["  ".join(_padded(row[i], widths[i], columns[i].right) for i in kept).rstrip() for row in cells]


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> None:
    """Print a table: fitted to a terminal, in full for everything else."""
    if not is_terminal():
        typer.echo("\n".join(table(columns, rows)))
        return
    from rich.console import Console

    Console().print(styled(table(columns, rows, terminal_width())), no_wrap=True, overflow="ellipsis")


def styled(lines: Sequence[str]) -> Text:
    """A table for a terminal: its heading in bold, nothing read as markup."""
    from rich.text import Text

    return Text(lines[0], "bold", no_wrap=True, overflow="ellipsis").append(
        "".join(f"\n{each}" for each in lines[1:]), "not bold"
    )


def terminal_width() -> int:
    """The width of the terminal in columns."""
    return shutil.get_terminal_size().columns


def _padded(text: str, width: int, right: bool) -> str:
    from rich.cells import cell_len

    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def _plain(model: BaseModel) -> Any:
    # By way of JSON, because that turns what JSON cannot say (NaN) into null; a zero has no minus.
    return json.loads(model.model_dump_json(by_alias=True), parse_float=lambda written: float(written) + 0.0)
