"""``elastane train`` gives each worker an accelerator of its own, and refuses more workers than there are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from elastane.accelerators import Accelerator
from elastane.train.coordinator import own_devices as module
from elastane.train.coordinator.device_locks import CLAIMED, FALL_BACK, NODE_DEVICES, claim
from elastane.train.coordinator.own_devices import OwnDevices, locks_of_user, own_devices
from elastane.train.errors import TrainError
from fakegpu import build
from fakegpu.lacking import without

FOUND = tuple(Accelerator(name, "A", 40.0) for name in ("GPU-a", "MIG-b", "hip:0", "ze:1"))
LOCKS = Path("/locks")
TWO = OwnDevices(("GPU-a", "GPU-b"), locks=LOCKS)


@pytest.mark.parametrize(
    ("builds", "names"),
    [
        ({"version": "2"}, ()),
        ({"version": "2", "cuda": "12"}, ("GPU-a", "MIG-b")),
        ({"hip": "6"}, ("hip:0",)),
        ({"xpu": "1"}, ("ze:1",)),
    ],
)
def test_devices_that_this_pytorch_cannot_use_are_no_devices(
    builds: dict[str, str], names: tuple[str, ...]
) -> None:
    assert own_devices(FOUND, builds, {}, shared=False, locks=LOCKS) == OwnDevices(names, False, LOCKS)


def test_who_wants_the_cpu_is_given_no_device() -> None:
    assert own_devices(FOUND, {"cuda": "12"}, {module.CHOSEN: "cpu"}, shared=False, locks=LOCKS) == OwnDevices()


def test_more_workers_than_devices_are_refused_in_one_line() -> None:
    TWO.check(2)
    OwnDevices().check(64)
    OwnDevices(TWO.names, shared=True).check(64)
    with pytest.raises(TrainError) as refusal:
        TWO.check(4)
    assert str(refusal.value) == "4 workers, but 2 GPUs here: --workers 2, or --share-devices (slower)"
    with pytest.raises(TrainError, match="1 GPU here: --workers 1,"):
        OwnDevices(("GPU-a",)).check(2)
    assert (TWO.most_workers, OwnDevices().most_workers) == (2, None)


def test_who_may_share_takes_a_free_one_first(tmp_path: Path) -> None:
    shared = OwnDevices(TWO.names, shared=True, locks=tmp_path)
    seen = []
    for worker in ("w1", "w2", "w3"):
        values = shared.environment(worker)
        assert claim(values) == ""
        seen.append((values["CUDA_VISIBLE_DEVICES"], values[CLAIMED]))
    assert seen == [("GPU-a", "GPU-a"), ("GPU-b", "GPU-b"), ("GPU-a", "GPU-a")]


def test_without_sharing_nobody_falls_back() -> None:
    values = TWO.environment("w1")
    assert values == {NODE_DEVICES: "/locks|GPU-a,GPU-b"}
    assert FALL_BACK not in values
    assert OwnDevices().environment("w1") == {}


def test_a_folder_of_somebody_else_is_not_locked_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.tempfile, "tempdir", str(tmp_path))
    folder = locks_of_user()
    assert folder == tmp_path / f"elastane-devices-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    other = locks_of_user()
    assert other.parent == tmp_path
    assert not other.samefile(tmp_path / "elsewhere")


SEES = """
import os, elastane.train as et
print("sees", os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("ELASTANE_CLAIMED"), flush=True)
job = et.init()
import torch
model = job.model(torch.nn.Linear(1, 1))
optimizer = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
for batch in job.loader(torch.utils.data.TensorDataset(torch.ones(8, 1)), batch_size=4):
    model(batch[0]).sum().backward()
    optimizer.step()
"""
BUILT_FOR_CUDA = """
from elastane.accelerators import probe
real = probe.torch_builds
probe.torch_builds = lambda: {**real(), "cuda": "12.8"}
"""


def elastane_train(folder: Path, devices: str, *words: str) -> subprocess.CompletedProcess[str]:
    """The command on a machine with a pretend NVML, and a PyTorch that says it was built for CUDA."""
    try:
        library = build.nvml()
    except build.CannotBuild as reason:
        without(reason)
    (folder / "sitecustomize.py").write_text(BUILT_FOR_CUDA)
    (folder / "script.py").write_text(SEES)
    environment: dict[str, Any] = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "LD_LIBRARY_PATH": str(library),
        "FAKE_NVML": devices,
        "TMPDIR": str(folder),
        "OMP_NUM_THREADS": "1",
    }
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "elastane",
            "train",
            "--json",
            "--run",
            str(folder / "run"),
            *words,
            "script.py",
        ],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_each_worker_of_the_command_sees_one_device_of_its_own(tmp_path: Path) -> None:
    done = elastane_train(tmp_path, "GPU-aaa,A100,40960;GPU-bbb,A100,40960", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ended"]["outcome"] == "finished"
    logs = [path.read_text() for path in sorted((tmp_path / "run" / "logs").glob("w*.log"))]
    seen = {line for log in logs for line in log.splitlines() if line.startswith("sees")}
    assert seen == {"sees GPU-aaa GPU-aaa", "sees GPU-bbb GPU-bbb"}


def test_the_command_refuses_more_workers_than_devices_before_anything_starts(tmp_path: Path) -> None:
    done = elastane_train(tmp_path, "GPU-aaa,A100,40960", "--resize", "2:1s")
    assert done.returncode == 2
    told = "error: 2 workers, but 1 GPU here: --workers 1, or --share-devices (slower)"
    assert told in done.stderr
    assert not (tmp_path / "run").exists()
