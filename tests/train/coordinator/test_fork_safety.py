"""A fork server that has touched a device or started a thread is found out, whatever did it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from elastane.train.coordinator import fork_safety
from elastane.train.coordinator.fork_safety import what_forbids_forking


def test_a_process_that_has_only_imported_pytorch_may_fork() -> None:
    code = (
        "import os; os.environ['OMP_NUM_THREADS'] = '1'\n"
        "from elastane.train.coordinator.forkserver import warm_up\n"
        "print(repr(warm_up(['json'])))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "''\n"


def test_a_thread_forbids_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_safety, "_initialised", lambda _torch: "")
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert what_forbids_forking().startswith("has started threads (")
    finally:
        stop.set()
        thread.join()


def pretend_open(process: Path, *names: str) -> None:
    """Let it seem that a process has opened these devices."""
    (process / "fd").mkdir()
    for number, name in enumerate(("null", *names)):
        (process / "fd" / str(number)).symlink_to(f"/dev/{name}")


@pytest.mark.parametrize("name", ["nvidia-uvm", "kfd", "dri/renderD128"])
def test_an_open_device_forbids_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    pretend_open(tmp_path, "nvidiactl", "nvidia0", name)
    monkeypatch.setattr(fork_safety, "_PROCESS", tmp_path)
    assert what_forbids_forking() == f"has opened /dev/{name}"


def test_what_nvidias_management_library_opens_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch asks it, and keeps it open, where it must not initialise a device."""
    pretend_open(tmp_path, "nvidiactl", "nvidia0", "nvidia1")
    monkeypatch.setattr(fork_safety, "_PROCESS", tmp_path)
    assert what_forbids_forking() == ""


def test_a_device_that_pytorch_has_initialised_forbids_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    import torch

    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch, "get_device_module", lambda _kind: SimpleNamespace(is_initialized=lambda: True))
    assert what_forbids_forking() == "has initialised cuda"
