"""Checks 9 to 11: real jobs under ``elastane train``, resized, in consistent mode, and beside PyTorch's own DDP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from elastane.train.device import DEVICE
from elastane.train.gpu_bench import example_job
from elastane.train.gpu_bench.ddp import samples_per_s, without_ddp
from elastane.train.gpu_bench.device_ranks import Unfinished, run
from elastane.train.gpu_bench.findings import Finding, Setting, State, absent, judged
from elastane.train.gpu_bench.models import MODELS
from elastane.train.reports.event_file import load_run
from elastane.train.reports.events import Resized, WorkerLost
from elastane.train.transport_choice import TransportKind
from elastane.train.transports.nccl import lacking

PAUSE_S = 1.0
NEAR_DDP = 0.8


def resize(setting: Setting) -> Finding:
    """Trains jobs that grow to two workers, lose one to ``kill -9``, get another and shrink again."""
    if len(setting.devices) < 2:
        return absent("one device")
    (why,) = run(setting.devices[:1], lambda rank: lacking(rank.device.kind), setting.patience_s)
    direct = TransportKind.STAGED if why else TransportKind.NCCL_LIKE
    good = True
    told: list[str] = []
    pauses: dict[str, float] = {}
    for mode, transport in (("fixed", TransportKind.STAGED), ("adaptive", direct)):
        changes, deaths = _disturbed(setting, mode, transport)
        name = f"{mode}, {transport.value}"
        times = {f"{name}: {each.kind} {each.before} to {each.after}, s": each.pause_s for each in changes[1:]}
        pauses |= times
        longest = max(times.values(), default=0.0)
        sizes = [size for size, _ in groupby(each.after for each in changes)]
        reached = sizes == [1, 2, 1, 2, 1] and deaths == 1
        good = good and reached and (longest < PAUSE_S or not setting.speeds)
        went = "" if reached else f" ({deaths} deaths; {', '.join(map(str, sizes))} workers)"
        told.append(f"{name} {longest:.3f} s{went}")
    value = f"longest pause: {'; '.join(told)}" + (f"; NCCL: not available here ({why})" if why else "")
    return judged(good, value, f"1, 2, (a death) 1, 2, 1 workers; pauses below {PAUSE_S:g} s", **pauses)


def _disturbed(setting: Setting, mode: str, transport: TransportKind) -> tuple[list[Resized], int]:
    """The changes of members that a job went through, and how many workers it lost."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["--resize", "2:3steps", "--mode", mode, "--transport", transport.value]
        story = ["--kill", transport.value, "--shrink", "--seconds", f"{setting.patience_s:g}"]
        _train(setting, Path(folder), words, story)
        events = load_run(Path(folder) / "run")
    return [each for each in events if isinstance(each, Resized)], sum(
        isinstance(e, WorkerLost) for e in events
    )


def consistent(setting: Setting) -> Finding:
    """Trains in consistent mode with one device, with two, and with two of which one is lost; compares the bits."""
    if len(setting.devices) < 2:
        return absent("one device")
    kill = ["--kill", TransportKind.STAGED.value]
    hashes: dict[str, str] = {}
    for name, workers, story in (("1 device", 1, []), ("2 devices", 2, []), ("2 devices, a kill", 2, kill)):
        with tempfile.TemporaryDirectory() as folder:
            words = ["--workers", str(workers), "--mode", "consistent", "--transport", "staged"]
            hashes[name] = _train(setting, Path(folder), words, ["--steps", "20", *story])["hash"]
    same = len(set(hashes.values())) == 1
    value = f"{'the same bits' if same else 'the bits differ'} with 1 device, with 2, and after a kill"
    return judged(same, value, "the same bits", **hashes)


def throughput(setting: Setting) -> Finding:
    """Compares the speed of three models with that of PyTorch's DDP."""
    (why,) = run(setting.devices[:1], lambda rank: lacking(rank.device.kind), setting.patience_s)
    if why or len(setting.devices) < 2:
        return absent(why or "one device")
    ours = {model: _ours(setting, model) for model in MODELS}
    facts = {f"{model}, samples/s": rate for model, rate in ours.items()}
    told = ", ".join(f"{model} {rate:,.0f}" for model, rate in ours.items()) + " samples/s"
    (why,) = run(setting.devices[:1], lambda rank: without_ddp(rank.device.kind), setting.patience_s)
    if why:
        return Finding(State.OK, f"{told}; DDP: not available here ({why})", "", facts)
    ratios = {model: ours[model] / _ddp(setting, model) for model in MODELS}
    facts |= {f"{model}, of DDP": ratio for model, ratio in ratios.items()}
    compared = ", ".join(f"{model} {ratio:.2f}" for model, ratio in ratios.items())
    value = f"{told}; of DDP: {compared}"
    return judged(
        min(ratios.values()) >= NEAR_DDP or not setting.speeds, value, f"at least {NEAR_DDP:g} of DDP", **facts
    )


def _ddp(setting: Setting, model: str) -> float:
    rate, *_ = run(
        setting.devices, lambda rank: samples_per_s(rank, model, setting.seconds), setting.patience_s
    )
    return float(rate)


def _ours(setting: Setting, model: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        words = ["--workers", str(len(setting.devices)), "--transport", "auto"]
        told = _train(setting, Path(folder), words, ["--model", model, "--seconds", f"{setting.seconds:g}"])
    return float(told["samples_per_s"])


def _train(setting: Setting, folder: Path, words: Sequence[str], arguments: Sequence[str]) -> Mapping[str, Any]:
    """What the example job wrote in the end."""
    result, script = folder / "result.json", str(Path(example_job.__file__))
    command = [sys.executable, "-m", "elastane", "train", "--json", "--run", str(folder / "run"), *words]
    environment = {name: value for name, value in os.environ.items() if name != DEVICE}
    try:
        done = subprocess.run(  # noqa: S603
            [*command, script, str(result), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=setting.patience_s + 4 * setting.seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unfinished("the job did not end in time") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise Unfinished(f"the job failed: {lines[-1] if lines else 'no reason given'}"[:300])
    told: Mapping[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return told
