"""The jobs of the demo, for real and then once more in the simulator: how far apart are they?"""

from __future__ import annotations

import os
import time
from statistics import fmean

from benchmarks.harness import Bench
from benchmarks.live.system import System, until
from elastane.demo.cast import CAST
from elastane.policies.registry import make_policy
from elastane.service.simulate_history import Rehearsed, rehearse
from elastane.service.store import Store

PATIENCE_S = 300.0
INTERVAL_S = 3.0


def fidelity(bench: Bench) -> None:
    """Slots as many as cores, and then twice as many."""
    cores = len(os.sched_getaffinity(0))
    for name, nodes, slots, limit in (("slots = cores", 1, cores, 0.10), ("2 nodes x cores", 2, cores, 0.20)):
        jobs = _run(bench, name, nodes, slots)
        for job in jobs:
            bench.figures.note(
                f"{name}: {job.name} ({job.kind}) {job.real_s:.1f} s, simulated {job.simulated_s:.1f} s"
            )
        real, simulated = fmean(job.real_s for job in jobs), fmean(job.simulated_s for job in jobs)
        bench.figures.note(f"{name}: mean {real:.1f} s, simulated {simulated:.1f} s")
        apart = abs(simulated / real - 1.0)
        bench.figures.at_most(f"{name}: mean completion time, simulated against real", apart, limit, "gate")


def _run(bench: Bench, name: str, nodes: int, slots: int) -> list[Rehearsed]:
    home = bench.folder / name.replace(" ", "-")
    with System(home, nodes=nodes, slots=slots, options=[f"--interval={INTERVAL_S}"]) as system:
        system.start()
        with system.client() as client:
            began_s = time.monotonic()
            ids = []
            for role in CAST:
                time.sleep(max(0.0, role.arrives_s - (time.monotonic() - began_s)))
                (home / role.name).mkdir()
                ids.append(client.submit(role.spec(), directory=str(home / role.name)).id)
            ended = ("succeeded", "failed", "cancelled", "rejected")
            until(
                lambda: all(client.job(i).state in ended for i in ids),
                f"{name}: the end of all jobs",
                PATIENCE_S,
            )
        system.end()
    store = Store.open(home / "elastane.db")
    try:
        return rehearse(store, make_policy("elastane"))
    finally:
        store.close()
