"""Damaged files that once ended in a stack trace, or in a refusal that did not say which file was meant."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from elastane.cli.main import main
from elastane.codec import decoded
from elastane.predict.devices import Device
from elastane.predict.eta.logs import records
from elastane.predict.profile import load_profile

POLLUX = "name,time,application,num_replicas,batch_size\n"
PRODUCT = "b,m,n,k,time_ms\n"
SIM = ("--policy", "fifo", "--nodes", "2", "--jobs", "1", "--no-cache")


def refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *command: str | Path) -> str:
    """The one line of a refusal."""
    monkeypatch.setattr(sys, "argv", ["elastane", *map(str, command)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert told.count("\n") == 1
    assert len(told) < 1500
    return told


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    return lambda *command: refused(capsys, monkeypatch, *command)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name,name,time,application,num_replicas,batch_size\na,0,cifar10,1,128\n", "column 'name' twice"),
        (POLLUX + "a,0,cifar10,1,1e308\n", "is above 1,000,000,000,000"),
        (POLLUX + "a,0,cifar10,1,7\n", "job a: batch 7 is outside"),
        (POLLUX + "a,0,cifar10,100,128\n", "asks for 100 GPUs"),
        (POLLUX + '"a\nb",0,cifar10,1,7\n', r"job 'a\nb'"),
        (POLLUX + "\x1b[2J,0,cifar10,1,7\n", r"\x1b"),
    ],
    ids=["column twice", "huge batch", "batch", "too wide", "name of two lines", "name that steers"],
)
def test_a_refused_trace_is_named(say, tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "t.trace"
    path.write_text(text)
    told = say("sim", path, *SIM)
    assert "t.trace" in told
    assert words in told


def prediction(**changes: object) -> str:
    step = {"device": "t4", "step_s": {"p05": 0.1, "p50": 0.2, "p95": 0.4}, "kappa": 1.0, **changes}
    return json.dumps({"steps": [step]})


@pytest.mark.parametrize(
    "text",
    [
        prediction(step_s={"p05": 0.5, "p50": 0.2, "p95": 0.4}),
        prediction(kappa=0),
        prediction(device=5),
        prediction(step_s={"p50": 0.2}),
        '{"steps": 5}',
        "[]",
    ],
)
def test_a_prediction_that_is_none_is_named(say, tmp_path: Path, text: str) -> None:
    (tmp_path / "log.jsonl").write_text('{"step": 1, "time": 3.0}\n')
    (tmp_path / "p.json").write_text(text)
    assert "p.json" in say("predict", "eta", tmp_path / "log.jsonl", "--predicted", tmp_path / "p.json")


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ("1,0,64,16,0.1", "m"),
        ("1,32,-1,16,0.1", "n"),
        ("1,32,64,1e300,0.1", "k"),
        ("1,32,64,16,-1", "time_ms"),
        ("1,32,64,16,1e308", "time_ms"),
    ],
)
def test_a_layer_of_an_impossible_size_is_named(say, tmp_path: Path, row: str, column: str) -> None:
    path = tmp_path / "product_t4.csv"
    path.write_text(PRODUCT + "1,32,64,16,0.1\n" + row + "\n")
    assert f"product_t4.csv, line 3: {column} is" in say("predict", "backtest", path)


def test_a_timing_file_of_a_few_rows_or_an_unknown_card_is_named(say, tmp_path: Path) -> None:
    few, strange = tmp_path / "product_t4.csv", tmp_path / "product_x9.csv"
    for path in (few, strange):
        path.write_text(PRODUCT + "1,32,64,16,0.1\n")
    assert "product_t4.csv: product on t4 has 1 rows" in say("predict", "backtest", few)
    assert "product_x9.csv, line 2: there is no device 'x9'" in say("predict", "backtest", strange)


MINE = {
    "name": "mine",
    "memory_gb": 80,
    "bandwidth_gb_per_s": 2000,
    "peak_tflops": {"fp32": 19.5},
    "launch_us": 5,
    "source": "vendor",
    "as_of": "2026-01-01",
}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([MINE, {**MINE, "memory_gb": "much"}], "its device number 2: memory_gb: not a number: 'much'"),
        ([{**MINE, "peak_tflops": {"fp32": []}}], "its device number 1: peak_tflops: not a number: []"),
        ([], "it holds no device"),
    ],
)
def test_a_refused_device_is_counted_and_its_field_named(say, tmp_path: Path, rows: object, words: str) -> None:
    (tmp_path / "d.json").write_text(json.dumps(rows))
    told = say("predict", "devices", "--device-file", tmp_path / "d.json")
    assert "d.json" in told
    assert words in told


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000, "\0", ""])
def test_a_checkpoint_state_that_is_none_tells_nothing(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "checkpoint-20"
    folder.mkdir()
    (folder / "trainer_state.json").write_text(text)
    assert list(records(tmp_path)) == []


def test_a_cell_of_a_device_table_is_named(say, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("name,memory_gb\nmine,much\n")
    assert "line 2, memory_gb: 'much' is not a number" in say(
        "predict", "devices", "--device-file", tmp_path / "d.csv"
    )


def test_a_history_of_a_strange_version_is_told_in_short(say, tmp_path: Path) -> None:
    (tmp_path / "h.json").write_text(json.dumps({"elastane_history": "x" * 5000, "experiences": []}))
    assert "h.json is a history of version" in say("history", "show", tmp_path / "h.json")


@pytest.mark.parametrize(
    "changes",
    [
        {"measured": [{"name": "mm", "kind": "matmul", "phase": "forward", "flops": -1.0, "bytes": 1.0, "dims": [1],
                       "seconds": 1.0}]},
        {"measured": [{"name": "mm", "kind": "matmul", "phase": "forward", "flops": 1.0, "bytes": 1.0, "dims": [1],
                       "seconds": "nan"}]},
        {"steps": [{"operators_s": 1.0, "calls": 1, "whole_s": 0.0}]},
        {"factors": {"matmul": -1.0}},
        {"factors": {"nonsense": 1.0}},
        {"drift_sd": "inf"},
    ],
)  # fmt: skip
def test_a_machine_profile_with_impossible_figures_is_damaged(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    from elastane.errors import ElastaneError

    good = {"device": MINE, "made_at_s": 1e9, "torch": "2", "threads": 1, "host": "h", "measured": [], "steps": [],
            "version": 2}  # fmt: skip
    path = tmp_path / "m.json"
    path.write_text(json.dumps(good))
    load_profile(path)
    path.write_text(json.dumps({**good, **changes}))
    with pytest.raises(ElastaneError, match=r"m\.json is damaged"):
        load_profile(path)


def test_a_field_that_cannot_be_read_is_named_with_its_way() -> None:
    with pytest.raises(ValueError, match="link: latency_us: not a number"):
        decoded(Device, {**MINE, "link": {"latency_us": None}})


def test_no_progress_is_drawn_where_nobody_looks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "t.trace").write_text(POLLUX + "a,0,cifar10,1,128\n")
    monkeypatch.setattr(sys, "argv", ["elastane", "sim", str(tmp_path / "t.trace"), *SIM])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert capsys.readouterr().err == ""
