"""Elastane's own policy against the others.  ``python -m benchmarks.policies``."""

from __future__ import annotations

from benchmarks.figures import Figures
from benchmarks.published import MEAN_JCT_S, WORKLOADS, replay


def against_pollux(figures: Figures, policy: str = "elastane") -> None:
    """Mean JCT ratio on the four shared workloads: to the published Pollux, and to ours under corrected physics.

    Every job declares its epochs; speed and noise are fitted online.
    """
    published = [replay(policy, w)[0] / MEAN_JCT_S["pollux"][w] for w in WORKLOADS]
    corrected = [replay(policy, w, compat=False)[0] / replay("pollux", w, compat=False)[0] for w in WORKLOADS]
    for name, ratios in (("published Pollux", published), ("our Pollux, corrected physics", corrected)):
        figures.note(f"{policy} / {name}: {', '.join(f'{r:.3f}' for r in ratios)}")
        mean = sum(ratios) / len(ratios)
        figures.at_most(f"{policy} mean JCT over {name}", mean, 0.90, "gate")
        figures.at_most(f"{policy} mean JCT over {name}", mean, 0.80, "goal")


if __name__ == "__main__":
    found = Figures("policies")
    against_pollux(found)
    found.finish()
