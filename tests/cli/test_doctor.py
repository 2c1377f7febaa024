"""What is well, what is not, and the line that mends it; a finding that something is wrong ends with 1."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from elastane.accelerators import Accelerator, Found
from elastane.cli.doctor import devices, lines, surroundings
from elastane.cli.doctor.findings import Finding, State
from elastane.cli.main import app
from fakegpu import build
from fakegpu.lacking import without

A100 = Accelerator("GPU-1", "A100", 40.0)
PARTS = Found((Accelerator("MIG-a", "A100 1g", 5.0, "GPU-1"), Accelerator("MIG-b", "A100 1g", 5.0, "GPU-1")))
CUDA = {"version": "2.13.0+cu128", "cuda": "12.8"}


def states(findings: list[Finding]) -> list[State]:
    return [finding.state for finding in findings]


def test_this_machine_can_train(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["doctor", "--json", "--home", str(tmp_path)])
    told = json.loads(shown.output)
    assert (shown.exit_code, told["ok"]) == (0, True)
    topics = [
        "Python",
        "PyTorch",
        "devices",
        "gradients",
        "jobs",
        "shared memory",
        "ports",
        "host name",
        "clock",
        "disk",
    ]
    assert [each["topic"] for each in told["findings"]] == topics
    assert all(each["remedy"] for each in told["findings"] if each["state"] != "ok")
    assert list(tmp_path.iterdir()) == []


def test_it_is_written_for_people_too(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["doctor", "--home", str(tmp_path)])
    assert shown.exit_code == 0
    assert "ok     gradients" in shown.output


def test_devices_without_a_pytorch_for_them_are_wrong_and_none_is_initialised(tmp_path: Path) -> None:
    """The whole verb with a pretend driver, in a process whose libraries are looked for there first."""
    try:
        folder = build.nvml()
    except build.CannotBuild as reason:
        without(reason)
    code = (
        "import sys\nfrom elastane.cli.main import app\n"
        f"try: app(['doctor', '--json', '--home', {str(tmp_path)!r}])\n"
        "finally: sys.stderr.write('torch' if 'torch' in sys.modules else 'no torch')"
    )
    known = {
        "LD_LIBRARY_PATH": str(folder),
        "FAKE_NVML": "GPU-1,Pretend A100,40960;GPU-2,Pretend L4,23034,lost",
    }
    asked = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **known}, capture_output=True, text=True, check=False
    )
    assert (asked.returncode, asked.stderr) == (1, "no torch")
    wrong = [each["told"] for each in json.loads(asked.stdout)["findings"] if each["state"] == "wrong"]
    assert wrong == [
        "it cannot use the cuda devices that are here",
        "GPU 1 has fallen off the bus: it is left out; see nvidia-smi and dmesg",
    ]


def test_pytorch_is_missing_or_fits_its_devices() -> None:
    found = Found((A100,))
    missing = devices.pytorch({}, found, "")
    assert states(missing) == [State.WRONG]
    assert missing[0].remedy == "python -m pip install 'elastane[torch]'"
    assert states(devices.pytorch({"version": "2.13.0+cpu"}, Found(), "")) == [State.GOOD]
    assert states(devices.pytorch({"version": "2.13.0+cpu"}, found, "")) == [State.GOOD, State.WRONG]
    fitting = devices.pytorch(CUDA, found, "570.1")
    assert [each.told for each in fitting] == ["2.13.0+cu128, built for cuda 12.8", "570.1"]
    amd = Found((Accelerator("hip:0", "MI300X", 192.0),))
    assert states(devices.pytorch(CUDA, amd, "")) == [State.GOOD, State.WRONG]


@pytest.mark.parametrize(
    ("version", "state"),
    [("2.27.3", State.GOOD), ("2.26", State.GOOD), ("2.21.5", State.NOTE), ("", State.NOTE)],
)
def test_an_nccl_that_cannot_be_aborted_is_told_of(
    monkeypatch: pytest.MonkeyPatch, version: str, state: State
) -> None:
    monkeypatch.setattr(devices, "nccl_version", lambda: version)
    assert states(devices.communicator(Found((A100,)))) == [state]
    assert devices.communicator(Found()) == []


def test_types_are_told_of_one_by_one_and_parts_share_their_way() -> None:
    other = Accelerator("GPU-2", "L4", 22.5)
    assert [each.told for each in devices.accelerators(Found((A100, other)))] == [
        "1 × A100 (40 GB): GPU-1",
        "1 × L4 (22.5 GB): GPU-2",
    ]
    assert devices.gradients(Found((A100, other))).state is State.GOOD
    assert devices.gradients(PARTS).state is State.NOTE


def test_without_a_cgroup_memory_is_not_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    found = surroundings.containment(lambda _home: None)
    assert found.state is State.NOTE
    assert "Delegate=yes" in found.remedy
    monkeypatch.setenv("ELASTANE_CGROUPS", "off")
    assert surroundings.containment(lambda _home: None).remedy == "unset ELASTANE_CGROUPS"


def test_shared_memory_may_be_missing(tmp_path: Path) -> None:
    assert surroundings.shared_memory(tmp_path / "shm").state is State.WRONG


def test_a_name_may_lead_nowhere_or_elsewhere() -> None:
    def nowhere(_name: str) -> str:
        raise socket.gaierror("Name or service not known")

    assert "leads nowhere" in surroundings.host_name(nowhere).told
    assert "not this machine" in surroundings.host_name(lambda _name: "192.0.2.1").told
    assert surroundings.host_name(lambda _name: "127.0.0.1").state is State.GOOD


def test_an_address_that_is_not_ours_cannot_be_listened_on() -> None:
    assert surroundings.ports("192.0.2.1").state is State.WRONG


def test_a_clock_may_run_free() -> None:
    assert surroundings.clock(lambda: 5).state is State.NOTE
    assert surroundings.clock(lambda: 0).state is State.GOOD


def test_a_disk_may_be_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = surroundings.shutil.disk_usage(tmp_path)
    for free_gb, state in ((0.5, State.WRONG), (3.0, State.NOTE), (30.0, State.GOOD)):
        monkeypatch.setattr(
            surroundings.shutil, "disk_usage", lambda _p, gb=free_gb: usage._replace(free=int(gb * 2**30))
        )
        assert surroundings.disk(tmp_path / "not" / "there").state is state


def test_a_remedy_stands_below_what_it_mends() -> None:
    shown = lines([Finding("disk", "full", State.WRONG, "make room"), Finding("clock", "right")])
    assert shown == ["wrong  disk   full", "              → make room", "ok     clock  right"]


@pytest.mark.parametrize(
    ("driver", "cuda", "state"),
    [
        ("570.124", "12.8", State.GOOD),
        ("470.82", "12.8", State.WRONG),
        ("570.124", "13.0", State.WRONG),
        ("580.65", "13.0", State.GOOD),
        ("an odd one", "", State.GOOD),
    ],
)
def test_a_driver_is_compared_with_what_pytorch_is_built_for(driver: str, cuda: str, state: State) -> None:
    builds = {"version": "2.13.0", **({"cuda": cuda} if cuda else {})}
    found = Found((A100,)) if cuda else Found()
    assert devices.pytorch(builds, found, driver)[-1].state is state
