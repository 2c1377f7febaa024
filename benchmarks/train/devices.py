"""Whole jobs on pretend GPUs, killed all the way: the main gate of training on devices.

1, 2, 4, 3 workers with one pretend GPU each and twenty ``kill -9``, five of them between the reduction and the step,
in consistent mode: the end is that of one process on a CPU, bit for bit.  Ten runs of each transport under each policy
of streams.  A run that was made counts until the sources change (``build/bench/train-devices-runs.jsonl``), so that
the benchmark can be broken off and goes on where it was; ``--quick`` makes one short run of each.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.harness import Bench, Stuck
from benchmarks.train.live import ROOT

RUNS, KILLS, WINDOWS = 10, 20, 5
COMBINATIONS = tuple((transport, policy) for transport in ("staged", "nccl") for policy in ("late", "thread"))
PATIENCE_S = 1200.0
_KEPT = Path("build/bench/train-devices-runs.jsonl")


@dataclass(frozen=True, slots=True)
class Run:
    """One job: how it was made, and what became of it."""

    transport: str
    policy: str
    seed: int
    found: Mapping[str, Any]

    @property
    def good(self) -> bool:
        """Whether it ended by itself with the bits of one process, and no worker ever differed."""
        return bool(self.found.get("same_bits")) and not self.found.get("diverged")


def devices(bench: Bench) -> None:
    """All runs, those made before first."""
    sources = fingerprint()
    kept = [] if bench.quick else list(_made_before(sources))
    if kept:
        bench.figures.note(f"{len(kept)} runs with these sources were made before, and are not made again")
    for transport, policy in COMBINATIONS:
        runs = [run for run in kept if (run.transport, run.policy) == (transport, policy)]
        made = {run.seed for run in runs}
        for seed in range(bench.seed, bench.seed + bench.count(RUNS, 1)):
            if seed not in made:
                runs.append(_run(bench, transport, policy, seed))
                if not bench.quick:
                    _keep(sources, runs[-1])
        _judge(bench, f"{transport}, {policy}", runs)


def fingerprint() -> str:
    """Of everything that a run depends on."""
    digest = hashlib.sha256()
    for folder in ("src/elastane/train", "src/elastane/accelerators", "tests/fakegpu", "tests/train/devices"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".cpp", ".h", ".c"):
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _made_before(sources: str) -> Iterator[Run]:
    for line in _KEPT.read_text().splitlines() if _KEPT.exists() else ():
        entry = json.loads(line)
        if entry.pop("sources") == sources:
            yield Run(**entry)


def _keep(sources: str, run: Run) -> None:
    _KEPT.parent.mkdir(parents=True, exist_ok=True)
    words = {"transport": run.transport, "policy": run.policy, "seed": run.seed, "found": run.found}
    with _KEPT.open("a") as file:
        file.write(json.dumps({"sources": sources, **words}) + "\n")


def _run(bench: Bench, transport: str, policy: str, seed: int) -> Run:
    kills, windows = bench.count(KILLS, 6), bench.count(WINDOWS, 2)
    command = [sys.executable, "-m", "train.devices.gate", f"--transport={transport}", f"--policy={policy}"]
    command += [f"--seed={seed}", f"--kills={kills}", f"--windows={windows}"]
    path = ":".join([str(ROOT / "tests"), *([os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else [])])
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    folder = bench.folder / f"{transport}-{policy}-{seed}"
    folder.mkdir()
    done = subprocess.run(
        command,
        env={**os.environ, **threads, "PYTHONPATH": path, "TMPDIR": str(folder)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    if done.returncode:
        raise Stuck(f"{transport}, {policy}, seed {seed}: {(done.stderr or done.stdout).strip()[-2000:]}")
    run = Run(transport, policy, seed, json.loads(done.stdout.splitlines()[-1]))
    _describe(bench, run)
    return run


def _describe(bench: Bench, run: Run) -> None:
    found = run.found
    end = "the reference's bits" if run.good else f"NOT AS IT SHOULD ({found['outcome']}: {found['cause']})"
    bench.figures.note(
        f"{run.transport}, {run.policy}, seed {run.seed}: {found['kills']} kills in {found['steps']} steps, "
        f"{found['windows']} between reduction and step, {found['over_nccl']} over a communicator, "
        f"{found['restarts']} from a checkpoint; {found['took_s']:.0f} s; ended with {end}"
    )


def _judge(bench: Bench, name: str, runs: Sequence[Run]) -> None:
    figures, found = bench.figures, [run.found for run in runs]
    pauses_s = sorted(pause for each in found for pause in each["recover_s"])
    if len(pauses_s) > 1:
        p95_s = quantiles(pauses_s, n=20, method="inclusive")[-1]
        figures.note(
            f"{name}: pause after a death: median {median(pauses_s):.3f} s, 95th percentile {p95_s:.3f} s"
        )
    figures.at_least(f"{name}: runs", len(runs), bench.count(RUNS, 1), "gate")
    figures.at_most(f"{name}: runs with other bits", sum(not run.good for run in runs), 0, "gate")
    figures.at_least(
        f"{name}: fewest kills in a run", min(f["kills"] for f in found), bench.count(KILLS, 6), "gate"
    )
    windows = min(f["windows"] for f in found)
    figures.at_least(f"{name}: fewest between reduction and step", windows, bench.count(WINDOWS, 2), "gate")
    if name.startswith("nccl"):
        figures.at_least(f"{name}: fewest over a communicator", min(f["over_nccl"] for f in found), 1, "gate")
