"""Checks 3 to 6: what communicators cost, and whether they can be aborted when a peer is killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import torch

from elastane.train.errors import MembershipChanged
from elastane.train.gpu_bench.device_ranks import Rank, run
from elastane.train.gpu_bench.findings import Finding, Setting, absent, judged
from elastane.train.transports.contract import Pending
from elastane.train.transports.nccl import lacking

ABORT_S = 5.0
INIT_S = 10.0
STEP_S = 1.0


def _not_here(setting: Setting) -> Finding | None:
    if len(setting.devices) < 2:
        return absent("one device")
    (why,) = run(setting.devices[:1], lambda rank: lacking(rank.device.kind), setting.patience_s)
    return absent(why) if why else None


def init(setting: Setting) -> Finding:
    """Measures how long communicators take to build, and the memory of each."""
    missing = _not_here(setting)
    if missing is not None:
        return missing
    seen, *_ = run(setting.pair, _connect_twice, setting.patience_s)
    value = (
        f"first {seen['first']:.2f} s and {seen['first, MB']:.0f} MB, "
        f"second {seen['second']:.2f} s and {seen['second, MB']:.0f} MB"
    )
    return judged(
        seen["second"] < INIT_S or not setting.speeds, value, f"the second below {INIT_S:g} s", **seen
    )


def _connect_twice(rank: Rank) -> dict[str, float]:
    facts: dict[str, float] = {}
    for name in ("first", "second"):
        free, _ = rank.device.memory() or (0, 0)
        began = time.perf_counter()
        made = rank.communicator(name)
        made.all_reduce(rank.zeros(1))
        facts[name] = time.perf_counter() - began
        facts[f"{name}, MB"] = (free - (rank.device.memory() or (0, 0))[0]) / 2**20
    return facts


def standby(setting: Setting) -> Finding:
    """Builds a communicator while another one is in use, and looks for a deadlock."""
    missing = _not_here(setting)
    if missing is not None:
        return missing
    seen, *_ = run(setting.pair, _connect_while_training, setting.patience_s)
    longest_ms, usual_ms = seen["longest"] * 1e3, seen["usual"] * 1e3
    value = f"built in {seen['init']:.2f} s; a step beside it took {longest_ms:.0f} ms at most, {usual_ms:.1f} before"
    return judged(
        seen["longest"] < STEP_S or not setting.speeds, value, f"no deadlock; a step below {STEP_S:g} s", **seen
    )


def _connect_while_training(rank: Rank) -> dict[str, float]:
    training, vector = rank.communicator("training"), rank.zeros(1)
    built: list[float] = []

    def build() -> None:
        rank.device.use()
        began = time.perf_counter()
        rank.communicator("standby")
        built.append(time.perf_counter() - began)

    steps: list[float] = []
    builder = threading.Thread(target=build, daemon=True)
    while True:
        began = time.perf_counter()
        training.all_reduce(vector)
        # Both leave after the same step: the vector says whether everybody has built.
        flag = torch.full((1,), float(bool(built)), device=rank.device.as_torch())
        training.all_reduce(flag)
        steps.append(time.perf_counter() - began)
        if len(steps) == 5:
            builder.start()
        if flag.item() == rank.world:
            break
    builder.join()
    return {"init": built[0], "longest": max(steps[5:]), "usual": sorted(steps[:5])[2]}


def kills(setting: Setting) -> Finding:
    """Kills a peer in an all-reduce, and looks at what the survivor can still do."""
    missing = _not_here(setting)
    if missing is not None:
        return missing
    times, garbage = [], 0
    for _ in range(setting.repeats):
        survivor, _ = run(setting.pair, _lose_a_peer, setting.patience_s)
        times.append(float(survivor["abort"]))
        garbage += survivor["garbage"]
        if not survivor["usable"] or survivor["given up"]:
            why = survivor["given up"] or "the stream did not go on"
            return judged(False, f"not usable after an abort: {why}", "usable", abort=times[-1])
    value = (
        f"{len(times)} of {len(times)} aborted in {max(times):.2f} s at most; output overwritten in {garbage}"
    )
    return judged(max(times) < ABORT_S, value, f"each below {ABORT_S:g} s", longest=max(times), garbage=garbage)


def _lose_a_peer(rank: Rank) -> Any:
    made, vector = rank.communicator("doomed"), rank.zeros(25)
    made.all_reduce(vector)
    rank.meet("ready")
    if rank.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    vector.fill_(1.0)
    pending = made.reduce(vector)
    began = time.perf_counter()
    made.abort()
    noticed = _breaks(pending)
    ended = made.wait_aborted(ABORT_S)
    rank.device.synchronize()
    took = time.perf_counter() - began
    garbage = vector[0].item() != 1.0
    usable = noticed and ended and torch.ones(10, device=rank.device.as_torch()).sum().item() == 10
    return {"abort": took, "garbage": bool(garbage), "usable": usable, "given up": rank.given_up}


def two_aborts(setting: Setting) -> Finding:
    """Kills a peer while two communicators have a collective under way, and aborts both at once."""
    missing = _not_here(setting)
    if missing is not None:
        return missing
    survivor, _ = run(setting.pair, _abort_two, setting.patience_s)
    took, usable = survivor["took"], survivor["usable"]
    value = f"both aborted in {took:.2f} s" if usable else f"not usable: {survivor['given up'] or 'stuck'}"
    return judged(usable and took < ABORT_S, value, f"below {ABORT_S:g} s, and usable", longest=took)


def _abort_two(rank: Rank) -> Any:
    made = [rank.communicator(name) for name in ("one", "two")]
    vectors = [rank.zeros(1) for _ in made]
    for each, vector in zip(made, vectors, strict=True):
        each.all_reduce(vector)
    rank.meet("both")
    if rank.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    pending = [each.reduce(vector) for each, vector in zip(made, vectors, strict=True)]
    began = time.perf_counter()
    for each in made:
        each.abort()
    noticed = sum(_breaks(each) for each in pending)
    ended = all(each.wait_aborted(ABORT_S) for each in made)
    rank.device.synchronize()
    took = time.perf_counter() - began
    usable = ended and noticed == 2 and torch.ones(10, device=rank.device.as_torch()).sum().item() == 10
    return {"took": took, "usable": usable, "given up": rank.given_up}


def _breaks(pending: Pending) -> bool:
    """Whether a collective says that it is not whole."""
    try:
        pending.finish()
    except MembershipChanged:
        return True
    return False
