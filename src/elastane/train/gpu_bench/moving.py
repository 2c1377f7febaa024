"""Checks 2 and 7: how fast gradients and copies travel."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from elastane.train.gpu_bench.device_ranks import Rank, run
from elastane.train.gpu_bench.findings import Fact, Finding, Setting, absent, judged
from elastane.train.transports import Transport
from elastane.train.transports.nccl import lacking

_ROUNDS = 5


def all_reduce(setting: Setting) -> Finding:
    """Sums vectors of several sizes over two devices, staged and with NCCL."""
    if len(setting.devices) < 2:
        return absent("one device")
    seen, *_ = run(setting.pair, lambda rank: _rates(rank, setting), setting.patience_s)
    facts: dict[str, Fact] = {f"{way} {mb} MB, GB/s": rate for way, mb, rate in seen["rates"]}
    best = {way: max(rate for other, _, rate in seen["rates"] if other == way) for way in seen["ways"]}
    value = ", ".join(f"{way} {rate:.2f} GB/s" for way, rate in best.items())
    if seen["lacking"]:
        value += f"; NCCL: not available here ({seen['lacking']})"
    faster = not setting.speeds or "nccl" not in best or best["nccl"] >= best["staged"]
    right = seen["right"]
    expected = "sums are right; NCCL is faster"
    return judged(faster and right, value if right else "a sum is wrong", expected, **facts)


def _rates(rank: Rank, setting: Setting) -> dict[str, Any]:
    ways: dict[str, Transport] = {"staged": rank.staged("staged")}
    missing = lacking(rank.device.kind)
    if not missing:
        ways["nccl"] = rank.communicator("nccl")
    rates, right = [], True
    for way, transport in ways.items():
        for megabytes in setting.megabytes:
            vector = rank.zeros(megabytes)
            vector.fill_(rank.rank + 1.0)
            transport.all_reduce(vector)
            right = right and vector[-1].item() == rank.world * (rank.world + 1) / 2
            seconds = _timed(rank, lambda t=transport, v=vector: t.all_reduce(v))  # type: ignore[misc]
            rates.append((way, megabytes, megabytes / 1024 / seconds))
    return {"rates": rates, "ways": list(ways), "lacking": missing, "right": right}


def _timed(rank: Rank, work: Callable[[], object]) -> float:
    """Seconds of one round; the device has finished before and after."""
    rank.device.synchronize()
    began = time.perf_counter()
    for _ in range(_ROUNDS):
        work()
    rank.device.synchronize()
    return max((time.perf_counter() - began) / _ROUNDS, 1e-9)


def copies(setting: Setting) -> Finding:
    """Copies to the host and back, alone and beside training."""
    (facts,) = run(setting.devices[:1], lambda rank: _copies(rank, max(setting.megabytes)), setting.patience_s)
    down, slow = facts["pinned down, GB/s"], facts["pageable down, GB/s"]
    slower = facts["step beside copies"] / facts["step alone"]
    good = (down >= 0.8 * slow and slower < 2.0) or not setting.speeds
    value = f"pinned {down:.2f} GB/s, pageable {slow:.2f} GB/s; a step beside copies takes {slower:.2f} times as long"
    return judged(good, value, "pinned is faster; below 2 times", **facts)


def _copies(rank: Rank, megabytes: int) -> dict[str, float]:
    there = rank.zeros(megabytes)
    pinned, pageable = rank.device.pinned(len(there), there.dtype), torch.empty(len(there))
    rate = megabytes / 1024
    facts = {
        "pinned down, GB/s": rate / _timed(rank, lambda: pinned.copy_(there, non_blocking=True)),
        "pageable down, GB/s": rate / _timed(rank, lambda: pageable.copy_(there)),
        "pinned up, GB/s": rate / _timed(rank, lambda: there.copy_(pinned, non_blocking=True)),
        "pageable up, GB/s": rate / _timed(rank, lambda: there.copy_(pageable)),
    }
    step = _a_step(rank)
    facts["step alone"] = _timed(rank, step)
    stream = rank.device.new_stream()
    assert stream is not None

    def beside() -> None:
        with stream:
            pinned.copy_(there, non_blocking=True)
        step()

    return {**facts, "step beside copies": _timed(rank, beside)}


def _a_step(rank: Rank) -> Callable[[], object]:
    size = 256
    left = torch.ones(size, size, device=rank.device.as_torch())

    def step() -> object:
        result = left
        for _ in range(20):
            result = result @ left / size
        return result

    return step
