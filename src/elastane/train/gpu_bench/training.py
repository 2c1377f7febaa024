"""Checks 9 to 11: real jobs under ``elastane train``, resized, in consistent mode, and beside PyTorch's own DDP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elastane.train.device import DEVICE
from elastane.train.gpu_bench import example_job
from elastane.train.gpu_bench.ddp import samples_per_s, without_ddp
from elastane.train.gpu_bench.device_ranks import Unfinished, run
from elastane.train.gpu_bench.findings import Finding, Setting, State, absent, judged
from elastane.train.gpu_bench.models import MODELS
from elastane.train.reports.event_file import load_run
from elastane.train.reports.events import Resized
from elastane.train.transports.nccl import lacking

PAUSE_S = 1.0
NEAR_DDP = 0.8


def resize(setting: Setting) -> Finding:
    """Trains a job that grows to two workers and shrinks again."""
    if len(setting.devices) < 2:
        return absent("one device")
    grow, shrink = setting.seconds, 2 * setting.seconds
    with tempfile.TemporaryDirectory() as folder:
        words = ["--resize", f"2:{grow:g}s,1:{shrink:g}s"]
        _train(setting, Path(folder), words, ["--seconds", f"{3 * setting.seconds:g}"])
        changes = [each for each in load_run(Path(folder) / "run") if isinstance(each, Resized)]
    pauses = {f"{each.kind} {each.before} to {each.after}, s": each.pause_s for each in changes[1:]}
    value = ", ".join(f"{what} {pause:.3f}" for what, pause in pauses.items())
    reached = [each.after for each in changes] == [1, 2, 1]
    longest = max(pauses.values(), default=0.0)
    good = reached and (longest < PAUSE_S or not setting.speeds)
    return judged(good, value or "nothing changed", f"1, 2, 1 workers; pauses below {PAUSE_S:g} s", **pauses)


def consistent(setting: Setting) -> Finding:
    """Trains in consistent mode with one and with two devices, and compares the bits."""
    hashes: dict[str, str] = {}
    for workers in (1, 2)[: len(setting.pair)]:
        with tempfile.TemporaryDirectory() as folder:
            words = ["--workers", str(workers), "--mode", "consistent"]
            hashes[f"{workers} devices"] = _train(setting, Path(folder), words, ["--steps", "20"])["hash"]
    if len(hashes) < 2:
        return absent("one device")
    same = len(set(hashes.values())) == 1
    value = "the same bits with 1 and 2 devices" if same else "the bits differ between 1 and 2 devices"
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
