"""Does the simulator reproduce the published one?  ``python -m benchmarks.fidelity [--genetic]``."""

from __future__ import annotations

import sys

from benchmarks.figures import Figures
from benchmarks.published import MEAN_JCT_S, WORKLOADS, replay


def fidelity(figures: Figures) -> None:
    """Gates: baselines within 3 % on each workload, Pollux within 10 % on each and 5 % on the mean."""
    for policy, published in MEAN_JCT_S.items():
        tolerance = 0.10 if policy == "pollux" else 0.03
        means = {}
        for workload in WORKLOADS:
            means[workload], _ = replay(policy, workload)
            figures.within(
                f"{policy} workload {workload} mean JCT s",
                means[workload],
                published[workload],
                tolerance,
                "gate",
            )
        average, reference = sum(means.values()) / 4, sum(published.values()) / 4
        if policy == "pollux":
            figures.within("pollux mean of four workloads, s", average, reference, 0.05, "gate")
        corrected = [replay(policy, workload, compat=False)[0] for workload in WORKLOADS]
        listed = ", ".join(f"{w}: {m:.0f}" for w, m in zip(WORKLOADS, corrected, strict=True))
        figures.note(f"{policy} with corrected physics, mean JCT s: {listed}; mean {sum(corrected) / 4:.0f}")
    started = [replay("tiresias(fifo=start)", workload)[0] for workload in WORKLOADS]
    listed = ", ".join(f"{w}: {m:.0f}" for w, m in zip(WORKLOADS, started, strict=True))
    figures.note(f"tiresias(fifo=start), the paper's wording, published physics: {listed}")


def genetic(figures: Figures) -> None:
    """Gate: the published genetic search within 5 % on the mean of the four workloads."""
    means = []
    for workload in WORKLOADS:
        mean, result = replay("pollux(search=genetic)", workload)
        means.append(mean)
        figures.note(f"pollux(search=genetic) workload {workload}: {mean:.0f} s, {result.cpu_s:.0f} CPU s")
    published = sum(MEAN_JCT_S["pollux"].values()) / 4
    figures.within("pollux(search=genetic) mean of four workloads, s", sum(means) / 4, published, 0.05, "gate")


if __name__ == "__main__":
    if "--genetic" in sys.argv:
        found = Figures("genetic")
        genetic(found)
    else:
        found = Figures("fidelity")
        fidelity(found)
    found.finish()
