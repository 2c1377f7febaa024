"""Renders the report of a demo as one HTML file that needs no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from elastane.demo.figure import figure
from elastane.demo.stage import NODES, SLOTS
from elastane.demo.tale import Tale
from elastane.demo.wording import HEADINGS, cells, facts
from elastane.kit.html_page import Charts, Page, filled, render, resource


def write_report(tale: Tale, path: Path) -> None:
    """Write the page: charts over time, figures of each job, and every line that was told."""
    values = {
        "head": f"<tr>{''.join(_headings('col', HEADINGS))}</tr>",
        "body": "".join(_row(cells(job)) for job in tale.summary.jobs),
        "story": "".join(_story(tale)),
    }
    page = Page(
        "Five jobs share four slots",
        "demo of the live system",
        facts(tale.summary),
        # The look is that of a training run's page.
        resource("elastane.train.reports", "page.css") + resource("elastane.demo", "page.css"),
        filled(resource("elastane.demo", "page.html"), values),
        charts=Charts(figure(tale, NODES * SLOTS), resource("elastane.demo", "page.js")),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(page), encoding="utf-8")


def _headings(scope: str, texts: Sequence[str]) -> Iterable[str]:
    return (f'<th scope="{scope}">{escape(text)}</th>' for text in texts)


def _row(texts: Sequence[str]) -> str:
    values = "".join(f"<td>{escape(text)}</td>" for text in texts[1:])
    return f"<tr>{''.join(_headings('row', texts[:1]))}{values}</tr>"


def _story(tale: Tale) -> Iterable[str]:
    for line in tale.lines:
        yield f"<tr><td>{line.at_s - tale.began_s:.1f} s</td><td>{escape(line.text)}</td></tr>"
