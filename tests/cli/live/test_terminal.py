"""What may reach a terminal, and in which form."""

from __future__ import annotations

import json

import pytest

from elastane.cli.live import terminal
from elastane.service.messages import CurvePoint

COLUMNS = (
    terminal.Column("id"),
    terminal.Column("owner", 1),
    terminal.Column("nodes", 2),
    terminal.Column("why"),
)
ROWS = [("j1", "ada", "n0:2", "full"), ("j10", "bob", "–", "waits")]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("train-1.0_b", "train-1.0_b"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x9b31m", "\\x9b31m"),
        ("a\x07\x00", "a\\x07\\x00"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("two\nlines\r\tand", "two lines  and"),
        ("[bold]markup[/]", "[bold]markup[/]"),
        ("\ud800", "\\ud800"),
        ("größe 模型", "größe 模型"),
    ],
)
def test_text_from_elsewhere_cannot_steer_the_terminal(text: str, shown: str) -> None:
    assert terminal.clean(text) == shown


def test_a_table_is_as_wide_as_it_needs_to_be() -> None:
    assert terminal.table(COLUMNS, ROWS) == [
        "id   owner  nodes  why",
        "j1   ada    n0:2   full",
        "j10  bob    –      waits",
    ]


def test_a_narrow_table_loses_the_least_important_columns_first() -> None:
    assert terminal.table(COLUMNS, ROWS, width=20)[0] == "id   owner  why"
    assert terminal.table(COLUMNS, ROWS, width=3)[0] == "id   why"


def test_a_long_reason_does_not_drive_out_the_other_columns() -> None:
    rows = [("j1", "ada", "n0:2", "because " * 20)]
    assert terminal.table(COLUMNS, rows, width=45)[0] == "id  owner  nodes  why"


def test_wide_letters_keep_columns_straight() -> None:
    lines = terminal.table(COLUMNS, [("模型", "a", "b", "c"), ("j1", "a", "b", "c")])
    assert lines[1:] == ["模型  a      b      c", "j1    a      b      c"]


def test_markup_in_a_cell_stays_text_on_a_terminal() -> None:
    text = terminal.styled(terminal.table(COLUMNS, [("[red]x[/red]", "", "", "")]))
    assert "[red]x[/red]" in text.plain


def test_json_holds_only_what_json_can_say() -> None:
    written = terminal.document([CurvePoint(workers=1, speedup=float("nan"))])
    assert json.loads(written, parse_constant=pytest.fail)[0]["speedup"] is None
