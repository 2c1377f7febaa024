"""Many people hand jobs in at once: every one is taken, soon, and is there afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from statistics import median, quantiles

from benchmarks.harness import Bench
from benchmarks.live.load import Plan, Result
from benchmarks.live.system import System
from benchmarks.train.live import environment
from elastane.client import Client

CLIENTS = 50
TENANT = "waiting"
"""May hold nothing, so that its jobs only wait: what is measured is how they are taken, not how they run."""


def submissions(bench: Bench) -> None:
    """10,000 in a minute, from 50 clients with their own tokens."""
    count, seconds = bench.count(10_000, 1000), bench.count(60, 6)
    with System(bench.folder / "home", nodes=1) as system:
        system.start()
        with system.client() as client:
            client.set_quota(TENANT, 0)
            tokens, used_s = _tokens(client), system.cpu_s()
            result = _load(bench.folder, client, tokens, count, float(seconds))
            used_s = system.cpu_s() - used_s
            stored = {job.id for job in client.jobs("all", limit=10_000)}
            decision_ms = client.policy().last_ms
        system.end()
    _judge(bench, result, count, stored)
    bench.figures.note(
        f"CPU of a submission: {used_s / count * 1e3:.2f} ms for the control plane (rounds included), "
        f"{result.cpu_s / count * 1e3:.2f} ms for its client"
    )
    bench.figures.note(f"a decision over them took {decision_ms or 0.0:.0f} ms")


def _tokens(client: Client) -> list[str]:
    for number in range(CLIENTS):
        client.add_user(f"user-{number}", "user", TENANT)
    return [client.new_token(f"user-{number}").token for number in range(CLIENTS)]


def _load(folder: Path, client: Client, tokens: list[str], count: int, seconds: float) -> Result:
    plan, result = folder / "plan.json", folder / "result.json"
    Plan(client.url, tokens, count, seconds, "/", {"command": [sys.executable, "-c", "pass"]}).write(plan)
    command = [sys.executable, "-m", "benchmarks.live.load", str(plan), str(result)]
    subprocess.run(command, env=environment(), check=True, timeout=seconds + 300.0)
    return Result.read(result)


def _judge(bench: Bench, result: Result, count: int, stored: set[str]) -> None:
    figures = bench.figures
    for words in sorted(set(result.problems))[:5]:
        figures.note(words)
    p99_ms = quantiles(result.took_s, n=100, method="inclusive")[-1] * 1e3
    figures.note(
        f"{count:,} submissions from {CLIENTS} clients in {result.wall_s:.1f} s; median "
        f"{median(result.took_s) * 1e3:.0f} ms, longest {max(result.took_s) * 1e3:.0f} ms"
    )
    figures.at_most("submissions: errors", len(result.problems), 0, "gate")
    figures.at_most("submissions: 99th percentile", p99_ms, 500.0, "gate", "ms")
    missing = len(set(result.ids) - stored) + count - len(set(result.ids))
    figures.at_most("submissions: acknowledged and not there", missing, 0, "gate")
