"""The shell of every HTML page we write: one file that needs no network, with head, facts, body and charts.

A page's package has its style, the template of its body and the script that draws its charts.  What stands in
``Page.body`` and ``Page.lead`` is HTML; everything else is text, and escaped here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from elastane import __version__


@dataclass(frozen=True, slots=True)
class Charts:
    """What is drawn with plotly: JSON values in the element ``#data``, and the script that reads them."""

    data: object
    script: str


@dataclass(frozen=True, slots=True)
class Page:
    """One page.  ``kind`` says what it is (``simulation report``); ``lead`` stands below its facts."""

    title: str
    kind: str
    facts: Mapping[str, str]
    style: str
    body: str
    lead: str = ""
    charts: Charts | None = None


def render(page: Page) -> str:
    """The whole file.  A page without charts may run no script at all."""
    return filled(
        resource("elastane.kit", "shell.html"),
        {
            "allowed": "script-src 'unsafe-inline'; " if page.charts else "",
            "title": escape(page.title),
            "kind": escape(page.kind),
            "version": escape(__version__),
            "facts": "".join(map(_fact, page.facts.items())),
            "style": page.style,
            "lead": page.lead,
            "body": page.body,
            "charts": _drawn(page.charts) if page.charts else "",
        },
    )


def _fact(fact: tuple[str, str]) -> str:
    return f"<div><dt>{escape(fact[0])}</dt><dd>{escape(fact[1])}</dd></div>"


def _drawn(charts: Charts) -> str:
    values = {"plotly": chart_library(), "data": script_safe(charts.data), "script": charts.script}
    return filled(resource("elastane.kit", "charts.html"), values)


def chart_library() -> str:
    """The JavaScript of plotly, which each page with charts carries inside."""
    from plotly.offline import get_plotlyjs  # slow to import, and pages without charts do without

    return str(get_plotlyjs())


def resource(package: str, name: str) -> str:
    """The text of a file that lies beside the modules of a package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def script_safe(data: object) -> str:
    """JSON that cannot end the script element it stands in, whatever the strings inside."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def filled(template: str, values: Mapping[str, str]) -> str:
    """Put values in the place of ``{{markers}}``; a value that happens to contain a marker stays as it is."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], template)
