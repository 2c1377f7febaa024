"""Renders the report of a demo as one HTML file that needs no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from elastane import __version__
from elastane.demo.figure import figure
from elastane.demo.stage import NODES, SLOTS
from elastane.demo.tale import Tale
from elastane.demo.wording import HEADINGS, cells, facts
from elastane.page import filled, script_safe


def write_report(tale: Tale, path: Path) -> None:
    """Writes the page: charts over time, figures of each job, and every line of the narrator."""
    from plotly.offline import get_plotlyjs

    page = filled(
        _resource("elastane.demo", "page.html"),
        {
            "version": escape(__version__),
            "facts": "".join(
                f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts(tale.summary).items()
            ),
            "head": f"<tr>{''.join(_headings('col', HEADINGS))}</tr>",
            "body": "".join(_row(cells(job)) for job in tale.summary.jobs),
            "story": "".join(_story(tale)),
            # The look is that of a training run's page.
            "style": _resource("elastane.train.reports", "page.css"),
            "plotly": get_plotlyjs(),
            "data": script_safe(figure(tale, NODES * SLOTS)),
            "script": _resource("elastane.demo", "page.js"),
        },
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def _resource(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")


def _headings(scope: str, texts: Sequence[str]) -> Iterable[str]:
    return (f'<th scope="{scope}">{escape(text)}</th>' for text in texts)


def _row(texts: Sequence[str]) -> str:
    values = "".join(f"<td>{escape(text)}</td>" for text in texts[1:])
    return f"<tr>{''.join(_headings('row', texts[:1]))}{values}</tr>"


def _story(tale: Tale) -> Iterable[str]:
    for line in tale.lines:
        yield f"<tr><td>{line.at_s - tale.began_s:.1f} s</td><td>{escape(line.text)}</td></tr>"
