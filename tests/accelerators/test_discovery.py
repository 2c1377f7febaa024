"""Every device of a machine is found under its own name, with its own memory, and only those that may be used."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from elastane.accelerators import Accelerator, Found, discover, visible_as
from elastane.accelerators.amd import amd_devices
from elastane.accelerators.nvml import Nvml
from elastane.accelerators.probe import probe, torch_builds
from fakegpu import build
from fakegpu.lacking import without

A100 = "Pretend A100-SXM4-40GB"
FOUR = ";".join(f"GPU-{i}{i}{i},{A100},40960" for i in range(4))
MIXED = f"GPU-111,{A100},40960;GPU-222,Pretend L4,23034;GPU-333,{A100},40960"
INSTANCES = f"MIG-aa1:{A100} MIG 3g.20gb:20096,MIG-aa2:{A100} MIG 1g.5gb:4864"
DIVIDED = f"GPU-111,{A100},40960,healthy,{INSTANCES};GPU-222,{A100},40960"
Ask = Callable[..., Found]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Discovery with the pretend library, and these devices in it."""
    try:
        library = build.nvml() / "libnvidia-ml.so.1"
    except build.CannotBuild as reason:
        without(reason)

    def asked(devices: str | None, **environment: str) -> Found:
        if devices is None:
            monkeypatch.delenv("FAKE_NVML", raising=False)
        else:
            monkeypatch.setenv("FAKE_NVML", devices)
        return discover(environment, str(library))

    return asked


def ids(found: Found) -> list[str]:
    return [device.id for device in found.devices]


def test_without_a_driver_or_without_devices_there_are_none(ask: Ask) -> None:
    assert ask(None) == ask("") == Found()
    assert discover({}, "libno-such-library.so") == Found()


def test_one_device_has_name_memory_and_uuid(ask: Ask) -> None:
    assert ask(f"GPU-1a2b,{A100},40960").devices == (Accelerator("GPU-1a2b", A100, 40.0),)
    assert ask(f"GPU-1a2b,{A100},40960").devices[0].kind == "pretend-a100-sxm4-40gb"


def test_several_are_each_told_of(ask: Ask) -> None:
    assert ids(ask(FOUR)) == ["GPU-000", "GPU-111", "GPU-222", "GPU-333"]
    assert [(device.name, device.memory_gb) for device in ask(MIXED).devices] == [
        (A100, 40.0),
        ("Pretend L4", 22.5),
        (A100, 40.0),
    ]


@pytest.mark.parametrize(
    ("chosen", "seen"),
    [
        ("2,0", ["GPU-222", "GPU-000"]),
        ("GPU-333", ["GPU-333"]),
        ("GPU-3,1", ["GPU-333", "GPU-111"]),
        ("", []),
        ("-1", []),
        ("1,9,2", ["GPU-111"]),
        ("1,1", ["GPU-111"]),
        ("GPU-", []),
        ("1,cuda,2", ["GPU-111"]),
        (" 1 , 2 ", ["GPU-111", "GPU-222"]),
    ],
)
def test_a_choice_is_read_as_the_driver_reads_it(ask: Ask, chosen: str, seen: list[str]) -> None:
    assert ids(ask(FOUR, CUDA_VISIBLE_DEVICES=chosen)) == seen


def test_a_divided_device_is_its_instances(ask: Ask) -> None:
    found = ask(DIVIDED)
    assert ids(found) == ["MIG-aa1", "MIG-aa2", "GPU-222"]
    assert [device.physical for device in found.devices] == ["GPU-111", "GPU-111", "GPU-222"]
    assert [device.memory_gb for device in found.devices] == [19.6, 4.8, 40.0]
    assert ids(ask(DIVIDED, CUDA_VISIBLE_DEVICES="MIG-aa2")) == ["MIG-aa2"]
    assert ids(ask(DIVIDED, CUDA_VISIBLE_DEVICES="0,1")) == ["MIG-aa1", "GPU-222"]
    assert ids(ask(DIVIDED, CUDA_VISIBLE_DEVICES="GPU-111")) == ["MIG-aa1"]


def test_a_device_that_does_not_answer_is_left_out_and_told_of(ask: Ask) -> None:
    found = ask(f"GPU-000,{A100},40960,lost;GPU-111,{A100},40960")
    assert ids(found) == ["GPU-111"]
    assert found.problems == ("GPU 0 has fallen off the bus: it is left out; see nvidia-smi and dmesg",)


def held_open(path: Path) -> bool:
    """Whether this process has a descriptor of a file."""
    return any(link.resolve() == path for link in Path("/proc/self/fd").iterdir())


def test_the_driver_is_let_go_of_so_that_the_process_may_fork(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = tmp_path / "nvidiactl"
    control.touch()
    monkeypatch.setenv("FAKE_NVML_FILE", str(control))
    assert len(ask(FOUR).devices) == 4
    assert not held_open(control)
    library = str(build.nvml() / "libnvidia-ml.so.1")
    with Nvml.opened(library) as nvml:
        assert nvml is not None
        assert nvml.driver() == "570.00-pretend"
        assert held_open(control)
    assert not held_open(control)
    assert nvml.driver() == ""


def test_an_old_driver_without_a_function_is_no_driver() -> None:
    assert discover({}, str(ctypes.util.find_library("c"))) == Found()


def test_finding_devices_initialises_none() -> None:
    code = "import sys, elastane.accelerators as a; a.discover(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class Amd:
    """As AMD's package."""

    users = 0

    def amdsmi_init(self) -> None:
        self.users += 1

    def amdsmi_shut_down(self) -> None:
        self.users -= 1

    def amdsmi_get_processor_handles(self) -> list[int]:
        return [7, 8]

    def amdsmi_get_gpu_asic_info(self, handle: int) -> dict[str, Any]:
        return {"market_name": f"Instinct {handle}"}

    def amdsmi_get_gpu_vram_info(self, _handle: int) -> dict[str, Any]:
        return {"vram_size": 65536}


def test_devices_of_amd_are_named_by_their_numbers() -> None:
    assert amd_devices(None, Amd()) == (
        Accelerator("hip:0", "Instinct 7", 64.0),
        Accelerator("hip:1", "Instinct 8", 64.0),
    )
    assert amd_devices("1,5", Amd()) == (Accelerator("hip:1", "Instinct 8", 64.0),)
    assert amd_devices(None, SimpleNamespace()) is None


def test_the_library_of_amd_is_shut_down_also_if_a_device_does_not_answer() -> None:
    library, broken = Amd(), Amd()
    broken.amdsmi_get_gpu_vram_info = lambda _handle: {}  # type: ignore[method-assign]
    assert amd_devices(None, library) is not None
    assert amd_devices(None, broken) is None
    assert library.users == broken.users == 0


def test_pytorch_tells_of_other_devices_in_a_process_that_is_thrown_away(tmp_path: Path) -> None:
    try:
        build.extension()
    except build.CannotBuild as reason:
        without(reason)
    (tmp_path / "sitecustomize.py").write_text("from fakegpu.torch_device import install\ninstall()\n")
    tests = Path(__file__).parent.parent
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tmp_path}:{tests}",
        "FAKEGPU_COUNT": "2",
        "FAKEGPU_MEMORY_MB": "512",
    }
    assert probe("ze", None, environment) == (
        Accelerator("ze:0", "Pretend GPU", 0.5),
        Accelerator("ze:1", "Pretend GPU", 0.5),
    )


@pytest.mark.parametrize("answer", ["", "no json", "{}", '{"devices": [[1]]}', '{"devices": 3}', "[]"])
def test_an_answer_that_makes_no_sense_means_no_devices(tmp_path: Path, answer: str) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho '{answer}'\n")
    program.chmod(0o755)
    assert probe("hip", None, {}, str(program)) == ()
    assert probe("hip", None, {}, str(tmp_path / "nothing")) == ()


def test_what_pytorch_was_built_with_is_read_without_importing_it() -> None:
    builds = torch_builds()
    assert builds["version"].startswith("2.")
    assert "cuda" not in builds


def test_a_name_says_which_variable_shows_it() -> None:
    assert visible_as("GPU-a") == ("CUDA_VISIBLE_DEVICES", "GPU-a")
    assert visible_as("3") == ("CUDA_VISIBLE_DEVICES", "3")
    assert visible_as("hip:3") == ("HIP_VISIBLE_DEVICES", "3")
    assert visible_as("ze:0") == ("ZE_AFFINITY_MASK", "0")
