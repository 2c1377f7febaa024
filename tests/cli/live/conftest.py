"""The live verbs on a server in memory, at a moment that does not pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import typer
from typer.testing import CliRunner, Result

from cli.live.fake import NOW_S, Fake, cluster
from elastane.cli.live import connection, register, times

Run = Callable[..., Result]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Fake:
    fake = cluster()
    monkeypatch.setattr(connection, "connect", lambda: fake)
    monkeypatch.setattr(times, "now_s", lambda: NOW_S)
    monkeypatch.setattr(times, "pause", lambda seconds: None)
    return fake


@pytest.fixture
def run(server: Fake) -> Run:
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    app.callback()(lambda: None)
    register(app)
    runner = CliRunner()

    def invoke(*arguments: str) -> Result:
        result = runner.invoke(app, list(arguments))
        unexpected = result.exception
        if unexpected is not None and not isinstance(unexpected, SystemExit):
            raise unexpected
        return result

    return invoke
