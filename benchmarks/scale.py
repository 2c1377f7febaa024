"""How cost grows with the work: a synthetic trace at constant load.  ``python -m benchmarks.scale [--quick]``."""

from __future__ import annotations

import resource
import sys

from benchmarks.figures import Figures
from elastane.sim.run import simulate
from elastane.sim.spec import RunSpec

_DAYS_PER_JOB = 7.0 / 10_000
_LIMIT_S = {"tiresias": 180.0, "pollux": 1800.0}


def scale(figures: Figures, sizes: tuple[int, ...]) -> None:
    """Goals: a week of 10,000 jobs on 1,024 GPUs in 3 (Tiresias) and 30 minutes (Pollux), 1.5 GB, linear growth."""
    for policy, limit_s in _LIMIT_S.items():
        per_job = {}
        for jobs in sizes:
            workload = f"synth:philly,jobs={jobs},days={jobs * _DAYS_PER_JOB:g}"
            result = simulate(RunSpec(workload, policy, cluster="128x8:t4", skip_bad=True))
            per_job[jobs] = result.cpu_s / jobs * 1e3
            figures.note(f"{policy}, {jobs} jobs: {result.cpu_s:.0f} CPU s, {per_job[jobs]:.1f} ms per job")
            if jobs == 10_000:
                figures.at_most(f"{policy}, 10,000 jobs on 1,024 GPUs, CPU s", result.cpu_s, limit_s, "goal")
        growth = per_job[sizes[-1]] / per_job[sizes[0]]
        figures.at_most(
            f"{policy}, CPU per job at {sizes[-1]} jobs over that at {sizes[0]}", growth, 2.0, "goal"
        )
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    figures.at_most("peak memory, GB", peak_gb, 1.5, "goal")


if __name__ == "__main__":
    found = Figures("scale")
    scale(found, (300, 1000, 3000) if "--quick" in sys.argv else (1000, 3000, 10_000))
    found.finish()
