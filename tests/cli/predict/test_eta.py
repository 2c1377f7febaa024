"""``elastane predict eta`` as people use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from elastane.cli.predict import app
from elastane.errors import ElastaneError


def predict(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments, catch_exceptions=False, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.stdout


def test_eta_of_a_log_in_words_and_as_json(tmp_path: Path) -> None:
    rows = [{"step": i, "time": 2.0 * i, "max_steps": 100} for i in range(1, 41)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    document = json.loads(predict("eta", str(tmp_path), "--json"))
    assert document["remaining_s"]["p50"] == pytest.approx(120.0)
    assert "left" in predict("eta", str(tmp_path / "log.jsonl"))
    (tmp_path / "short.jsonl").write_text('{"step": 1, "time": 3.0}\n')
    assert "unknown, because" in predict("eta", str(tmp_path / "short.jsonl"))


def test_a_log_that_is_not_there_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ElastaneError, match="there is no log"):
        CliRunner().invoke(app, ("eta", str(tmp_path / "nowhere.jsonl")), catch_exceptions=False)
