"""Whether adapting keeps what it promises: the same accuracy, and the efficiency that the noise scale predicts."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.harness import Bench, Stuck
from benchmarks.train.alone import finish, start
from benchmarks.train.live import LiveJob
from elastane.train.reports.event_file import load_run
from elastane.train.reports.events import Resized, Stepped

RESIZES = "--resize=3:60steps,2:150steps,4:220steps"
EPOCHS = 20
SMALLEST = 16
FACTORS = (2, 4, 8, 16)
TARGET = 0.1
"""Loss on all training data; the untrained network begins at 2.3."""
AT_ONCE = 2


def accuracy(bench: Bench) -> None:
    """Both promises, over several seeds."""
    _same_accuracy(bench, range(bench.count(5, 1)))
    _predicted_efficiency(bench, range(bench.count(5, 2)))


def _same_accuracy(bench: Bench, seeds: Sequence[int]) -> None:
    figures = bench.figures
    alone = [_alone(bench, f"fixed{s}", "fixed", f"--seed={s}", f"--epochs={EPOCHS}") for s in seeds]
    elastic = [_elastic(bench, seed) for seed in seeds]
    pairs = zip(alone, elastic, strict=True)
    differences = [b["accuracy"] - a["accuracy"] for a, b in pairs]
    for a, b in zip(alone, elastic, strict=True):
        figures.note(
            f"accuracy {a['accuracy']:.4f} alone in {a['steps']} steps of {a['batches'][-1]}; "
            f"{b['accuracy']:.4f} adaptive in {b['steps']} steps of up to {b['batches'][-1]}, "
            f"workers {b['workers']}"
        )
    figures.at_most("accuracy, adaptive with resizes − alone (mean)", abs(fmean(differences)), 0.01, "gate")
    largest = max(map(abs, differences))
    figures.at_most("accuracy, adaptive with resizes − alone (any seed)", largest, 0.015, "goal")
    grown = min(b["batches"][-1] / a["batches"][-1] for a, b in zip(alone, elastic, strict=True))
    figures.at_least("the least that any adaptive batch grew by", grown, 1.2, "goal", "×")


def _alone(bench: Bench, name: str, mode: str, *arguments: str) -> dict[str, Any]:
    out = bench.folder / f"{name}.json"
    finish(start("digits.py", bench.folder / name, [str(out), *arguments], ELASTANE_MODE=mode))
    return _result(out)


def _elastic(bench: Bench, seed: int) -> dict[str, Any]:
    out, run = bench.folder / f"adaptive{seed}.json", bench.folder / f"adaptive{seed}"
    arguments = [str(out), f"--seed={seed}", f"--epochs={EPOCHS}"]
    options = [RESIZES, "--preload=sklearn.datasets"]
    with LiveJob("digits.py", run, arguments, mode="adaptive", options=options) as job:
        code = job.wait()
        if code:
            raise Stuck(f"{run} ended with exit code {code}: {job.words()}")
        sizes = [event.after for event in job.events() if isinstance(event, Resized)]
    return {**_result(out), "workers": "→".join(map(str, sizes))}


def _result(out: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(out.read_text())
    return result


def _predicted_efficiency(bench: Bench, seeds: Sequence[int]) -> None:
    """Samples to the target at several batches against what the noise at the smallest one says."""
    batches = [SMALLEST * factor for factor in (1, *FACTORS)]
    cases = list(itertools.product(batches, seeds))
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        needed = dict(zip(cases, pool.map(lambda case: _samples_needed(bench, *case), cases), strict=True))
    finally:
        pool.shutdown(cancel_futures=True)
    least = fmean(needed[SMALLEST, seed] for seed in seeds)
    bench.figures.note(f"batch {SMALLEST}: {least:.0f} samples to a loss of {TARGET}")
    for batch in batches[1:]:
        each = [needed[batch, seed] for seed in seeds]
        measured = least / fmean(each)
        predicted = fmean(_predicted(bench.folder / f"batch{SMALLEST}-{seed}", batch) for seed in seeds)
        bench.figures.note(
            f"batch {batch}: {fmean(each):.0f} samples ({min(each):.0f} to {max(each):.0f}); "
            f"efficiency {measured:.3f} measured, {predicted:.3f} predicted"
        )
        bench.figures.within(f"predicted efficiency at batch {batch}", predicted, measured, 0.2, "gate")


def _samples_needed(bench: Bench, batch: int, seed: int) -> float:
    arguments = [f"--seed={seed}", f"--batch={SMALLEST}", f"--total={batch}", "--momentum=0", "--epochs=1000"]
    # Two gradients a step at least, so that the noise can be told from a single worker.
    arguments += [f"--per-worker={batch // 2}", f"--target={TARGET}"]
    return _crossing(_alone(bench, f"batch{batch}-{seed}", "adaptive", *arguments)["curve"])


def _crossing(curve: Sequence[tuple[int, float]]) -> float:
    """Samples at which the loss came to the target, between the two looks around that moment."""
    (before, high), (after, low) = curve[-2], curve[-1]
    part = (math.log(high) - math.log(TARGET)) / (math.log(high) - math.log(low))
    return before + part * (after - before)


def _predicted(run: Path, batch: int) -> float:
    """Efficiency at ``batch``, from the noise that a run at the smallest batch told of all along."""
    windows = [event for event in load_run(run) if isinstance(event, Stepped) and event.steps]
    steps = sum(window.steps for window in windows)
    return steps / sum(window.steps / _efficiency(window.noise, batch) for window in windows)


def _efficiency(noise: float | None, batch: int) -> float:
    """Of one sample at ``batch``, relative to one at the smallest; 1 where noise drowns everything."""
    return 1.0 if noise is None else (noise + SMALLEST) / (noise + batch)
