"""Every worker has accelerators of its own, as long as it lives and no longer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from elastane.train.coordinator.device_locks import NODE_DEVICES, WORKER_DEVICES, claim, visible

VISIBLE = "CUDA_VISIBLE_DEVICES"
HOLD = """
import os, sys
from elastane.train.coordinator.device_locks import claim
claim(os.environ)
os.execvp("sh", ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES; read line"])
"""


def holder(folder: Path, numbers: str, count: str = "1") -> tuple[subprocess.Popen[str], str]:
    """A worker that becomes another program and waits; (it, what it may see)."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD],
        env={**os.environ, NODE_DEVICES: f"{folder}|{numbers}", WORKER_DEVICES: count},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_no_device_has_two_workers_and_a_dead_one_has_none(tmp_path: Path) -> None:
    first, seen = holder(tmp_path, "4,5,6", "2")
    second, other = holder(tmp_path, "4,5,6")
    try:
        assert (seen, other) == ("4,5", "6")
        full = {NODE_DEVICES: f"{tmp_path}|4,5,6"}
        assert "0 of 1" in claim(full, patience_s=0.0)
        assert VISIBLE not in full
        first.kill()
        first.wait()
        third, again = holder(tmp_path, "4,5,6")
        third.kill()
        third.wait()
        assert again == "4"
    finally:
        for process in (first, second):
            process.kill()
            process.wait()


def test_each_maker_has_a_variable_of_its_own() -> None:
    assert visible(["GPU-a", "MIG-b"]) == {"CUDA_VISIBLE_DEVICES": "GPU-a,MIG-b"}
    assert visible(["hip:3", "hip:0"]) == {"HIP_VISIBLE_DEVICES": "3,0"}
    assert visible(["ze:1"]) == {"ZE_AFFINITY_MASK": "1"}


def test_a_worker_sees_its_device_by_name(tmp_path: Path) -> None:
    process, seen = holder(tmp_path, "MIG-one,GPU-two")
    process.kill()
    process.wait()
    assert seen == "MIG-one"


def test_where_there_are_no_accelerators_nothing_is_said() -> None:
    nothing: dict[str, str] = {}
    assert claim(nothing) == ""
    assert nothing == {}


def test_a_share_of_a_device_takes_none(tmp_path: Path) -> None:
    shared = {NODE_DEVICES: f"{tmp_path}|0", WORKER_DEVICES: "0.5"}
    assert claim(shared) == ""
    assert VISIBLE not in shared
