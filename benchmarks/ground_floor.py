"""``make bench``: fidelity, speed, decision latency and optimality of the ground floor."""

from __future__ import annotations

from benchmarks.fidelity import fidelity
from benchmarks.figures import Figures
from benchmarks.speed import fit_speed, latency, optimality, replay_speed


def main() -> None:
    """All figures that take minutes; the slow ones are ``make bench-genetic`` and ``make bench-scale``."""
    figures = Figures("ground_floor")
    replay_speed(figures)
    fit_speed(figures)
    latency(figures)
    optimality(figures)
    fidelity(figures)
    figures.finish()


if __name__ == "__main__":
    main()
