"""Throughput of two workers against plain DistributedDataParallel, step by step in the same processes."""

from __future__ import annotations

from statistics import median

from benchmarks.harness import Bench
from benchmarks.train.live import LiveJob
from benchmarks.train.scripts.networks import TASKS

_TASKS = {"cnn": (0.95, 60), "transformer": (0.95, 60), "mlp": (0.95, 60), "large": (0.98, 24)}
"""Least share of DDP's throughput, and rounds: a large model, whose sums overlap the backward pass, takes long."""


def ddp(bench: Bench) -> None:
    """Four kinds of model."""
    for task, (gate, rounds) in _TASKS.items():
        out = bench.folder / f"{task}.json"
        arguments = [str(out), f"--task={task}", f"--rounds={bench.count(rounds, 10)}"]
        with LiveJob("side_by_side.py", bench.folder / task, arguments, workers=2) as job:
            # The script leaves the loop when it has seen enough, which the library rightly calls early.
            rows = job.result(out)
        size = sum(p.numel() for p in TASKS[task].network().parameters())
        own_s, plain_s = (median(row[name] for row in rows) for name in ("elastane", "ddp"))
        ratios = [row["ddp"] / row["elastane"] for row in rows]
        bench.figures.note(
            f"{task}, {size / 1e6:.2f} M parameters, rounds of 10 steps: {own_s * 1e3:.0f} ms with elastane, "
            f"{plain_s * 1e3:.0f} ms with DDP; ratios of rounds {min(ratios):.2f} to {max(ratios):.2f}"
        )
        bench.figures.at_least(f"{task}: throughput of DDP reached (median)", median(ratios), gate, "gate")
