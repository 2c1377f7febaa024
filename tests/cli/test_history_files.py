"""``elastane history build`` and ``show``, ``sim --history`` and ``--record-history``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from elastane.cli.main import app
from elastane.errors import ElastaneError
from elastane.models.history import load_pool

SIM = ("sim", "pollux:1,jobs=6", "--policy", "elastane,fifo", "--nodes", "4", "--jobs", "1", "--no-cache")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *words: CliRunner().invoke(app, words)


def test_a_history_is_recorded_built_shown_and_used(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    assert run(*SIM, "--json", "out.json", "--record-history", "direct.json").exit_code == 0
    assert run("history", "build", "out.json", "-o", "built.json", "--share").exit_code == 0
    direct, built = (load_pool(tmp_path / name) for name in ("direct.json", "built.json"))
    assert {past.id for past in direct} == {past.id for past in built}
    assert all(past.shared for past in built)
    assert not any(past.shared for past in direct)
    shown = json.loads(run("history", "show", "built.json", "--json").stdout)
    assert sum(row["jobs"] for row in shown) == 6
    assert shown[0]["kind"] in run("history", "show", "built.json").stdout
    result = run(*SIM, "--history", "built.json", "--json", "-")
    assert json.loads(result.stdout)["physics"]["history"] == "built.json"


def test_mistakes_are_one_clear_line(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "other.json").write_text("{}")
    result = run("history", "build", "other.json", "-o", "x.json")
    assert result.exit_code == 2
    assert "neither" in result.stderr
    assert not (tmp_path / "x.json").exists()
    assert run("history", "show", "nothing.json").exit_code == 2
    result = run(*SIM, "--history", "nothing.json")
    assert isinstance(result.exception, ElastaneError)
    assert "nothing.json" in str(result.exception)
