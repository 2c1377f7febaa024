"""Every page is one file: it asks the network for nothing, and text of users cannot leave its place."""

from __future__ import annotations

import re

import pytest

from elastane.kit import html_page
from elastane.kit.html_page import Charts, Page, filled, render, script_safe

EVIL = "</script><b>&\"'{{data}}"


@pytest.fixture(autouse=True)
def _small_chart_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five megabytes of plotly would only slow the tests."""
    monkeypatch.setattr(html_page, "chart_library", lambda: "/* plotly */")


def page(charts: Charts | None = None, text: str = "x", body: str = "<main></main>") -> str:
    return render(Page(text, text, {text: text}, "p { margin: 0 }", body, charts=charts))


def test_a_page_without_charts_may_run_no_script() -> None:
    plain = page()
    assert "default-src 'none'; style-src" in plain
    assert "<script" not in plain


def test_charts_bring_the_library_their_data_and_their_script() -> None:
    drawn = page(Charts({"a": [1, 2]}, "draw();"))
    assert re.findall(r"<script[^>]*>\s*(.*?)\s*</script>", drawn) == ["/* plotly */", '{"a":[1,2]}', "draw();"]
    assert "script-src 'unsafe-inline'" in drawn


@pytest.mark.parametrize("charts", [None, Charts({EVIL: EVIL}, "draw();")])
def test_text_of_users_cannot_leave_its_place(charts: Charts | None) -> None:
    text = page(charts, EVIL, body=f"<main>{{{{title}}}}{EVIL.replace('<', '&lt;')}</main>")
    assert text.count("</script") == (3 if charts else 0)
    assert "<b>" not in text
    assert "{{title}}" in text  # a value that looks like a marker stays what it is
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", text)


def test_data_cannot_end_the_script_it_stands_in() -> None:
    assert "<" not in script_safe({"a": "</script>"})
    with pytest.raises(ValueError, match="not JSON compliant"):
        script_safe(float("nan"))


def test_values_are_put_in_once() -> None:
    assert filled("{{a}} {{b}}", {"a": "{{b}}", "b": "x"}) == "{{b}} x"
