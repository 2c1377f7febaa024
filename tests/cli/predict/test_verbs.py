"""``elastane predict`` as people use it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
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
        lambda n: (torch.randn(n, 64) for _ in range(5)),
    )

def wrong():
    return 1
"""

BOX = json.dumps(
    [
        {"name": "box", "memory_gb": 8, "bandwidth_gb_per_s": 20, "peak_tflops": {"fp32": 0.1}, "launch_us": 2}
        | {"source": "made up for tests", "as_of": "2026-01-01"}
    ]
)


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
        (("run", "their_job:make", "--samples", "1k", "--epochs", "1", "--parallel", "both"), "--parallel"),
        (("run", "their_job:make", "--samples", "1k", "--epochs", "1", "--val-every", "often"), "--val-every"),
        (("explain", "their_job:make", "--by", "color"), "--by"),
        (("explain", "their_job:make", "--device", "t4", "--measured"), "processor"),
        (("explain", "their_job:make", "--device", "t4,h100", "--html", "x.html"), "one device"),
        (("probe", "--device", "t4"), "cannot be probed"),
        (("probe", "--device", "local"), "predict calibrate"),
        (("backtest", "nowhere.csv"), "cannot be read"),
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


def test_explain_measures_and_writes_a_page(folder: Path) -> None:
    (folder / "box.json").write_text(BOX)
    common = ("explain", "their_job:make", "-b", "4", "--device", "box", "--device-file", "box.json")
    page = folder / "page.html"
    document = json.loads(predict(*common, "--by", "kind", "--measured", "--html", str(page), "--json"))
    assert document["measured_s"] > 0
    assert sum(row["measured_s"] for row in document["rows"]) == pytest.approx(document["measured_s"])
    assert "Plotly" in page.read_text(encoding="utf-8")
    assert "measured" in predict(*common, "--measured")


def test_a_run_in_parts_with_checkpoints_and_a_page(folder: Path) -> None:
    common = ("run", "their_job:make", "--samples", "100k", "--epochs", "2", "--device", "t4", "--gpus", "1,4")
    page = folder / "run.html"
    plain = json.loads(predict(*common, "--json"))["runs"]
    saved = json.loads(predict(*common, "--checkpoint", "60s", "--html", str(page), "--json"))["runs"]
    assert {run["gpus"]: run["total_s"]["p50"] for run in saved}[1] == pytest.approx(
        {run["gpus"]: run["total_s"]["p50"] for run in plain}[1] + 120.0
    )
    assert "Time against GPUs" in page.read_text(encoding="utf-8")
    for way in ("model", "hybrid"):
        assert f"{way} parallel" in predict(*common, "--parallel", way, "--json")
    loaded = json.loads(predict(*common, "--measure-data", "--json"))["runs"]
    assert all("data loading was not measured" not in run["notes"] for run in loaded)


def test_probes_of_a_device_of_ones_own_are_used_from_then_on(folder: Path) -> None:
    (folder / "box.json").write_text(BOX)
    own = ("--device", "box", "--device-file", "box.json")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    found = json.loads(predict("probe", "--layers", "1", *own, "--json"))
    torch.set_num_threads(threads)
    assert found["factors"]["convolution"] > 0
    assert "probed" in predict("step", "their_job:make", *own)


def test_a_backtest_prints_all_models_and_fails_beyond_a_limit(folder: Path) -> None:
    sizes = [(m, n) for m in range(16, 300, 40) for n in range(16, 300, 40)]
    rows = [
        f"{card},{0.01 + 2e-6 * m * n},1,{m},{n},64" for card in ("t4", "v100") for m, n in (*sizes, (9, 9))
    ]
    (folder / "products.csv").write_text("device,time_ms,b,m,n,k\n" + "\n".join(rows) + "\n")
    table = predict("backtest", "products.csv", "--epochs", "1", "--probes", "5")
    assert all(name in table for name in ("linear in FLOPs", "PALEO", "layer-wise network", "ours, probed"))
    strict = ("backtest", "products.csv", "--epochs", "1", "--no-cards", "--json", "--at-most", "0")
    done = CliRunner().invoke(app, strict)
    assert isinstance(done.exception, ElastaneError)
    document = json.loads(done.stdout)
    assert len(document["held_out"]) == 2
    assert document["unseen_cards"] == []


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
