"""Checks 0, 1 and 8: what is here, how fast a worker has a device, and what happens when its memory is full."""

from __future__ import annotations

import platform
import time
from typing import Any

import torch

from elastane.accelerators.nvml import Nvml
from elastane.train.gpu_bench.device_ranks import Rank, run
from elastane.train.gpu_bench.findings import Fact, Finding, Setting, State, judged
from elastane.train.transports.nccl import nccl_version

FIRST_TENSOR_S = 5.0


def versions(setting: Setting) -> Finding:
    """Names the versions and the devices of this machine."""
    seen = run(setting.devices, _describe, setting.patience_s)
    nccl = ".".join(map(str, nccl_version() or ())) or "none"
    facts: dict[str, Fact] = {
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda or ""),
        "hip": str(torch.version.hip or ""),
        "nccl": nccl,
        "driver": _driver(),
        "MIG instances": sum(device.startswith("MIG-") for device in setting.devices),
        "python": platform.python_version(),
        "kernel": platform.release(),
    }
    for number, device in enumerate(seen):
        facts[f"device {number}"] = f"{setting.devices[number]}: {device}"
    value = f"torch {torch.__version__}, NCCL {nccl}, {len(seen)} × {seen[0]}"
    return Finding(State.OK, value, "", facts)


def _driver() -> str:
    """NVIDIA's, where it is that."""
    with Nvml.opened() as nvml:
        return nvml.driver() if nvml is not None else ""


def _describe(rank: Rank) -> str:
    name = torch.get_device_module(rank.device.as_torch()).get_device_name(rank.device.as_torch())
    free, total = rank.device.memory() or (0, 0)
    return f"{name}, {free / 2**30:.1f} of {total / 2**30:.1f} GB free"


def first_tensor(setting: Setting) -> Finding:
    """Measures how long a forked process needs for its first tensor."""
    (took_s,) = run(setting.devices[:1], _touch, setting.patience_s)
    return judged(
        took_s < FIRST_TENSOR_S or not setting.speeds,
        f"{took_s:.2f} s from the fork's first device call to a tensor on the host",
        f"below {FIRST_TENSOR_S:g} s",
        seconds=took_s,
    )


def _touch(rank: Rank) -> float:
    assert torch.ones(1000, device=rank.device.as_torch()).sum().item() == 1000
    return time.perf_counter() - rank.began_s


def out_of_memory(setting: Setting) -> Finding:
    """Fills the memory of a device, and uses the device afterwards."""
    (seen,) = run(setting.devices[:1], _overfill, setting.patience_s)
    good = seen["refused"] and seen["sum"] == 1000
    told = "refused, and the device is usable afterwards" if good else "the device is not usable afterwards"
    return judged(good, told, "an error that can be caught", **{"free after": seen["free"]})


def _overfill(rank: Rank) -> dict[str, Any]:
    """Allocates a quarter at a time until there is no more, and goes on."""
    _, total = rank.device.memory() or (0, 1 << 40)
    kept, refused = [], False
    try:
        for _ in range(8):
            kept.append(torch.empty(total // 4, dtype=torch.uint8, device=rank.device.as_torch()))
    except torch.OutOfMemoryError:
        refused = True
    kept.clear()
    rank.device.release()
    total_after = torch.ones(1000, device=rank.device.as_torch()).sum().item()
    return {"refused": refused, "sum": total_after, "free": (rank.device.memory() or (0, 0))[0]}
