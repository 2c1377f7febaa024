"""Renders the frame of a page: title, facts, sections, charts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from elastane.kit.html_page import Charts, Page, render, resource

_HERE = "elastane.predict.pages"

COLORS = ("#1f5fbf", "#d97a1e", "#23926b", "#b23a82", "#7a5cc9", "#c0443a", "#3b9bbf", "#8c7a1f", "#5b6673")


def write_page(
    path: Path, title: str, facts: Mapping[str, str], sections: Sequence[str], charts: Mapping[str, object]
) -> None:
    """Write one file; ``charts`` are figures of plotly by the id of the element they are drawn into."""
    drawn = Charts(charts, resource(_HERE, "page.js"))
    body = "\n".join(sections)
    page = Page(
        title, "prediction", facts, resource(_HERE, "page.css"), f"<main>\n{body}\n</main>", charts=drawn
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(page), encoding="utf-8")


def section(title: str, remark: str, *inside: str) -> str:
    """Renders a section of the page, with a title and an optional remark."""
    head = f"<h2>{escape(title)}</h2>" + (f'<p class="remark">{escape(remark)}</p>' if remark else "")
    return f"<section>{head}{''.join(inside)}</section>"


def chart(name: str) -> str:
    """Renders the element that a chart is drawn into."""
    return f'<div class="chart" id="{escape(name)}"></div>'


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Renders a table whose first column holds row headings."""
    head = "".join(f'<th scope="col">{escape(each)}</th>' for each in headings)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(each)}</td>" for each in row[1:])}</tr>'
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
