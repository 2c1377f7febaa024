"""``elastane predict`` as people use it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from elastane.cli.predict import app
from elastane.errors import ElastaneError

JOB = """
import torch
from elastane.predict import TrainingJob

def make():
    return TrainingJob(
        torch.nn.Linear(64, 64),
        lambda n: torch.randn(n, 64),
        lambda model, x: model(x).square().mean(),
        lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    )

def wrong():
    return 1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "their_job.py").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "their_job", raising=False)
    return tmp_path


def predict(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments, catch_exceptions=False, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_step_on_all_devices_has_an_interval_and_a_basis(folder: Path) -> None:
    steps = json.loads(predict("step", "their_job:make", "-b", "16", "--device", "all", "--json"))["steps"]
    assert len(steps) > 15
    for each in steps:
        assert 0 < each["step_s"]["p05"] < each["step_s"]["p50"] < each["step_s"]["p95"]
        assert each["basis"]
    table = predict("step", "their_job:make", "--device", "t4,h100")
    assert "t4" in table
    assert "shipped fit" in table


def test_a_run_over_devices_and_counts_with_prices_and_wishes(folder: Path) -> None:
    (folder / "prices.csv").write_text(
        "provider,device,gpus,usd_per_hour,source,as_of\nthere,t4,1,0.5,their page,2026-11-10\n"
    )
    common = (
        "run",
        "their_job:make",
        "--samples",
        "1.28M",
        "--epochs",
        "9",
        "--device",
        "t4,h100",
        "--gpus",
        "1,4",
    )
    runs = json.loads(predict(*common, "--json"))["runs"]
    assert [each["total_s"]["p50"] for each in runs] == sorted(each["total_s"]["p50"] for each in runs)
    assert all(each["cost_usd"] is None for each in runs)
    priced = json.loads(predict(*common, "--price-file", "prices.csv", "--sort", "cost", "--json"))["runs"]
    assert priced[0]["device"] == "t4"
    assert "there, 2026-11-10" in priced[0]["offer"]
    kept = json.loads(predict(*common, "--price-file", "prices.csv", "--budget", "$1000", "--json"))["runs"]
    assert {each["device"] for each in kept} == {"t4"}
    assert "nothing keeps within that" in predict(*common, "--deadline", "1ms")
    assert "no price" in predict(*common)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("step", "their_job"), "package.module:function"),
        (("step", "their_job:nothing", "--device", "t4"), "no function nothing"),
        (("step", "their_job:wrong", "--device", "t4"), "must return a TrainingJob"),
        (("step", "no_such_module:make", "--device", "t4"), "No module named"),
        (("step", "their_job:make"), "predict calibrate"),
        (("step", "their_job:make", "--device", "a100-80"), "did you mean"),
        (("step", "their_job:make", "--device", "t4", "--precision", "fp31"), "did you mean"),
        (("run", "their_job:make", "--samples", "many", "--epochs", "1"), "--samples"),
        (("run", "their_job:make", "--samples", "1k", "--epochs", "1", "--budget", "$5"), "--price-file"),
        (("run", "their_job:make", "--samples", "1k", "--epochs", "1", "--gpus", "0"), "--gpus"),
        (("run", "their_job:make", "--samples", "1k", "--epochs", "1", "--sort", "size"), "--sort"),
        (("explain", "their_job:make", "--by", "color"), "--by"),
    ],
)
def test_mistakes_are_told_in_a_sentence(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    if arguments == ("step", "their_job"):
        arguments = (*arguments, "--device", "t4")
    with pytest.raises(ElastaneError, match=message):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_explain_adds_up_to_the_step(folder: Path) -> None:
    document = json.loads(predict("explain", "their_job:make", "--device", "t4", "--json"))
    assert sum(document["by"].values()) == pytest.approx(document["step_s"]["p50"])
    assert "100.0%" in predict("explain", "their_job:make", "--device", "t4", "--by", "module")


def test_devices_show_origin_and_date() -> None:
    assert "datasheet" in predict("devices")
    assert all(row["source"] and row["as_of"] for row in json.loads(predict("devices", "--json")))


def test_neither_the_package_nor_its_help_imports_pytorch() -> None:
    code = (
        "import sys, elastane.predict, elastane.cli.predict as p; from typer.testing import CliRunner;"
        "assert CliRunner().invoke(p.app, ['--help']).exit_code == 0;"
        "assert CliRunner().invoke(p.app, ['devices']).exit_code == 0;"
        "assert not {'torch', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
