"""``elastane predict eta`` as people use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from elastane.cli.predict import app
from elastane.errors import ElastaneError
from elastane.predict.outcomes import load_outcomes
from elastane.predict.profile import history_path


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


def log(path: Path, count: int = 40) -> str:
    rows = []
    for step in range(1, count + 1):
        rows.append({"step": step, "time": 2.0 * step, "max_steps": 100})
        if step % 4 == 0:
            rows.append({"step": step, "time": 2.0 * step, "eval_accuracy": 1.0 - 2.0 / (step + 2.0)})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_a_target_or_patience_shortens_the_time_left_and_says_why(tmp_path: Path) -> None:
    path = log(tmp_path / "log.jsonl")
    plain = json.loads(predict("eta", path, "--json"))
    stop = json.loads(predict("eta", path, "--json", "--metric", "eval_accuracy", "--target", "0.97"))
    assert stop["remaining_s"]["p50"] < plain["remaining_s"]["p50"]
    assert stop["stop"]["validations"] == 10
    assert stop["stop"]["ends"]["p95"] <= 25.0
    assert stop["stop"]["verdict"] in ("trusted", "cannot tell")
    assert "may stop early: " in predict("eta", path, "--metric", "accuracy", "--patience", "3")


def test_elapsed_time_is_told_by_what_it_went_into(tmp_path: Path) -> None:
    told = json.loads(predict("eta", log(tmp_path / "log.jsonl"), "--json"))
    assert told["elapsed_s"].keys() == {"train", "validation", "checkpoint", "stall", "pause"}
    assert sum(told["elapsed_s"].values()) == pytest.approx(78.0)
    assert told["rate_s"]["p50"] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [(["--metric", "loss"], "--target or --patience"), (["--higher"], "--target or --patience")],
)
def test_a_metric_needs_a_rule(tmp_path: Path, options: list[str], words: str) -> None:
    with pytest.raises(ElastaneError, match=words):
        CliRunner().invoke(app, ("eta", log(tmp_path / "log.jsonl"), *options), catch_exceptions=False)


def test_following_ends_with_the_training(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log(path, 100)
    with path.open("a") as file:
        file.write('{"train_runtime": 200.0, "step": 100, "time": 201.0}\n')
    last = predict("eta", str(path), "--follow", "--every", "0.05", "--json").splitlines()[-1]
    assert json.loads(last)["remaining_s"]["p95"] == 0.0


def test_a_run_is_compared_with_its_prediction_and_the_error_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = [{"step": i, "time": 3.0 * i, "max_steps": 1000} for i in range(1, 81)]
    path, said = tmp_path / "log.jsonl", tmp_path / "step.json"
    step = {"device": "local", "step_s": {"p05": 1.5, "p50": 2.0, "p95": 2.5}, "kappa": 1.0}
    said.write_text(json.dumps({"steps": [step]}))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[:40]))
    early = json.loads(predict("eta", str(path), "--predicted", str(said), "--json"))
    assert early["measured_over_predicted"] is None
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "a step takes 1.50 times what was predicted" in predict("eta", str(path), "--predicted", str(said))
    predict("eta", str(path), "--predicted", str(said))
    (outcome,) = load_outcomes(history_path())
    assert (outcome.device, outcome.predicted_s, outcome.measured_s) == ("local", 2.0, pytest.approx(3.0))


def test_a_run_of_several_workers_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    said = tmp_path / "step.json"
    step = {"device": "local", "step_s": {"p05": 1.5, "p50": 2.0, "p95": 2.5}, "kappa": 1.0}
    said.write_text(json.dumps({"steps": [step]}))
    for workers, compared in ((1, True), (2, False)):
        rows = [
            {
                "type": "stepped",
                "at_s": 3.0 * i,
                "step": i,
                "fraction": i / 1000,
                "workers": workers,
                "batch": 8,
            }
            for i in range(1, 81)
        ]
        (tmp_path / "events.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        told = json.loads(predict("eta", str(tmp_path), "--predicted", str(said), "--json"))
        assert (told["measured_over_predicted"] == pytest.approx(1.5)) == compared


@pytest.mark.parametrize("text", ["{}", "[]", "no", '{"steps": [{}, {}]}', '{"steps": [{"device": "t4"}]}'])
def test_a_prediction_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "step.json").write_text(text)
    with pytest.raises(ElastaneError, match=r"step\.json"):
        predict("eta", str(tmp_path / "log.jsonl"), "--predicted", str(tmp_path / "step.json"))
