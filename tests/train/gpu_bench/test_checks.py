"""Every check of ``elastane bench-gpu`` runs on pretend GPUs; what goes wrong is odd, and the exit code says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from elastane.accelerators import Found
from elastane.cli.main import app
from elastane.train.errors import TrainError
from elastane.train.gpu_bench.findings import Check, Finding, Setting, State, judged
from elastane.train.gpu_bench.report import CHECKS, Line, examine, well
from train.devices.pretend import Machine, needs_pretend_gpu

SETTING = Setting(("fake:0",))


def bench(
    folder: Path, only: str, machine: Machine, *words: str
) -> tuple[int, Mapping[int, Mapping[str, Any]], str]:
    """Its exit code, what it found by number, and the report."""
    needs_pretend_gpu()
    done = subprocess.run(
        [sys.executable, "-m", "elastane", "bench-gpu", "--quick", "--only", only, *words],
        cwd=folder,
        env={**os.environ, **machine.environment(folder), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert (folder / "bench-gpu.json").exists(), done.stderr
    document = json.loads((folder / "bench-gpu.json").read_text())
    assert document["ok"] is (done.returncode == 0)
    return done.returncode, {line["number"]: line for line in document["checks"]}, done.stdout


@pytest.mark.slow
@pytest.mark.devices
@pytest.mark.parametrize("policy", [pytest.param("late", marks=pytest.mark.devices_ci), "thread"])
def test_checks_of_devices_and_communicators_are_well(tmp_path: Path, policy: str) -> None:
    machine = Machine(2, policy, memory_mb=600)
    code, found, report = bench(tmp_path, "0,1,2,3,4,5,6,7,8", machine)
    assert {number: line["state"] for number, line in found.items() if line["state"] != "ok"} == {}
    assert code == 0
    assert "2 × Pretend GPU" in report
    assert found[2]["facts"].keys() == {f"{way} {mb} MB, GB/s" for way in ("staged", "nccl") for mb in (1, 4)}
    assert found[5]["facts"]["garbage"] == 2
    assert len(report.splitlines()) == 1 + 9


@pytest.mark.slow
@pytest.mark.devices
@pytest.mark.devices_ci
def test_checks_of_resizes_kills_and_bits_are_well(tmp_path: Path) -> None:
    code, found, report = bench(tmp_path, "9,10", Machine(2), "--patience", "120")
    assert code == 0, report
    for job in ("fixed, staged", "adaptive, nccl"):
        changes = [name.split(": ")[1] for name in found[9]["facts"] if name.startswith(job)]
        assert {"grow 1 to 2, s", "recover 2 to 1, s", "shrink 2 to 1, s"} <= set(changes)
    assert found[10]["facts"].keys() == {"1 device", "2 devices", "2 devices, a kill"}
    assert len(set(found[10]["facts"].values())) == 1


@pytest.mark.slow
@pytest.mark.devices
def test_the_check_of_throughput_is_well(tmp_path: Path) -> None:
    code, found, report = bench(tmp_path, "11", Machine(2))
    assert code == 0, report
    assert "DDP: not available here (it has no backend for fakegpu)" in found[11]["value"]


@pytest.mark.slow
@pytest.mark.devices
def test_one_device_has_nothing_to_talk_to(tmp_path: Path) -> None:
    code, found, _ = bench(tmp_path, "1,2,3,5", Machine(2), "--devices", "1")
    assert code == 0
    assert {number: line["state"] for number, line in found.items()} == {
        1: "ok",
        2: "absent",
        3: "absent",
        5: "absent",
    }


@pytest.mark.slow
@pytest.mark.devices
def test_without_a_communicator_its_checks_say_so(tmp_path: Path) -> None:
    machine = Machine(2, variables={"FAKEGPU_COMMUNICATOR": "none"})
    code, found, _ = bench(tmp_path, "2,3", machine)
    assert code == 0
    why = "not available here: this PyTorch has no communicator for fakegpu"
    assert found[3]["value"] == why
    assert "NCCL: not available here" in found[2]["value"]


@pytest.mark.slow
@pytest.mark.devices
def test_an_abort_that_never_returns_is_odd(tmp_path: Path) -> None:
    machine = Machine(2, variables={"FAKEGPU_FAULTS": "abort_never_returns"})
    code, found, report = bench(tmp_path, "6", machine, "--patience", "20")
    assert (code, found[6]["state"]) == (1, "odd")
    assert "odd" in report


DDP = """
from elastane.train.gpu_bench.ddp import samples_per_s
from elastane.train.gpu_bench.device_ranks import run
one, other = run(["a", "b"], lambda rank: samples_per_s(rank, "mlp", 0.2), 100.0)
assert one > 0 and other > 0
"""


@pytest.mark.slow
@pytest.mark.devices
def test_ddp_is_measured_where_it_has_a_backend() -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", DDP], env=environment, timeout=120, check=True)


def test_a_check_that_fails_is_odd_and_the_others_go_on() -> None:
    def fails(_: Setting) -> Finding:
        raise TrainError("the device is gone")

    checks = [Check(0, "one", fails), Check(1, "two", lambda _: judged(True, "42 s", "below 50 s"))]
    lines = list(examine(SETTING, checks))
    assert [line.finding.state for line in lines] == [State.ODD, State.OK]
    assert "the device is gone" in lines[0].text()
    assert "42 s" in lines[1].text()
    assert not well(lines)
    assert well(lines[1:])


def test_what_is_odd_is_shown_with_what_was_expected() -> None:
    line = Line(CHECKS[5], judged(False, "7 s", "each below 5 s", longest=7.0))
    assert line.text().startswith(" 5  odd  kill -9")
    assert "(expected: each below 5 s)" in line.text()
    assert line.to_json()["facts"] == {"longest": 7.0}


def test_there_are_twelve() -> None:
    assert [check.number for check in CHECKS] == list(range(12))


@pytest.mark.parametrize(
    ("words", "told"),
    [((), "there are no GPUs here"), (("--only", "2,x"), "there are no GPUs here")],
)
def test_without_gpus_it_says_so(words: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elastane.accelerators.discover", Found)
    result = CliRunner().invoke(app, ["bench-gpu", *words])
    assert isinstance(result.exception, TrainError)
    assert told in str(result.exception)
