"""A large cluster's control plane: 1,000 jobs on 200 nodes without processes, and the lines of 200 simulated agents."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import Bench
from benchmarks.live.rounds import Size, rounds
from benchmarks.live.system import System, until
from benchmarks.train.live import environment
from elastane.engines.local.json_files import Lock
from elastane.engines.local.paths import Layout

AGENTS, JOBS = 200, 1000
_WATCHED_S = 20.0


def agents(bench: Bench) -> None:
    """Rounds with an engine that has no processes, then a real head whom 200 lines say that all is well."""
    nodes = bench.count(AGENTS, 20)
    rounds(bench.figures, Size(nodes, bench.count(JOBS, 100), measured_s=bench.count(30, 10)))
    with System(bench.folder / "home", nodes=1, slots=1, options=["--listen=127.0.0.1:0"]) as system:
        system.start()
        log = (bench.folder / "lines.log").open("wb")
        with log, _lines(system.home, nodes, log.fileno()) as lines:
            try:
                _watch(bench, system, nodes)
            finally:
                lines.kill()


def _lines(home: Path, count: int, output: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.cluster.lines", str(home), str(count)],
        env=environment(ELASTANE_HOME=str(home)),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
    )


def _watch(bench: Bench, system: System, nodes: int) -> None:
    with system.client() as client:

        def up() -> int:
            return sum(node.state == "up" for node in client.nodes())

        def all_here() -> bool:
            time.sleep(0.2)
            return up() == nodes + 1

        until(all_here, f"{nodes} simulated agents joined")
        hub = Lock(Layout(system.home).hub_lock).holder()
        assert hub is not None
        began_s, used_s = time.monotonic(), cpu_s([system.pid, hub])
        lost = 0
        while time.monotonic() < began_s + _WATCHED_S:
            time.sleep(1.0)
            lost = max(lost, nodes + 1 - up())
        share = (cpu_s([system.pid, hub]) - used_s) / (time.monotonic() - began_s)
    bench.figures.at_most(f"agents: {nodes} lines, share of a core of head and hub", share, 0.25, "gate")
    bench.figures.at_most("agents: nodes lost by mistake", lost, 0, "gate")


def cpu_s(pids: Sequence[int]) -> float:
    """What processes have used so far."""
    ticks = 0
    for pid in pids:
        words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(words[11]) + int(words[12])
    return ticks / os.sysconf("SC_CLK_TCK")
