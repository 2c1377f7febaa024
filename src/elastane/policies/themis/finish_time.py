"""Computes finish-time fairness ρ as Themis defines it, and who is far enough behind to bid.

=========  ========================================================================================
symbol     meaning
=========  ========================================================================================
R          GPUs of the cluster; ``demand`` is the most that the app can use
S(G)       slowdown of the bundle G: 1 on one machine, more across machines; |G|/S(G) is its speed-up
T_sh       (now − T_start) + left · S(G)/|G|, the whole time on the shared cluster, if G stays
T_id       total / min(R, demand) · N_avg, the time on a fair part of it
N_avg      apps on the cluster, on average over the life of this one
ρ          T_sh ÷ T_id
f          fairness knob: free GPUs are shown only to the worst-off part 1 − f of the apps
=========  ========================================================================================

An app that only asks for half the cluster is compared with N_avg times its time on that half, not with its time on an
N_avg-th of the cluster, which Gavel, Pollux and Sia take: the two differ by up to a factor of two (THE-5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from elastane.models.speed import FloatArray

NOTHING = 10.0
"""Stands for the unbounded ρ of an app without GPUs, of which no product could be made.

All have the same factor, so every app gains alike by its first bundle, and of equal gains the worst-off is served.
"""


@dataclass(frozen=True, slots=True)
class App:
    """One job as its agent answers for it; work is in seconds on one GPU."""

    age_s: float
    left_s: float
    total_s: float
    demand: int
    contention: float

    def fair_s(self, cluster_gpus: int) -> float:
        """Returns T_id, the time in seconds on a fair part of the cluster."""
        return self.total_s / max(min(cluster_gpus, self.demand), 1) * self.contention

    def rho(self, speedup: float, cluster_gpus: int, restart_s: float = 0.0) -> float:
        """Returns ρ with a bundle of this speed-up; ``restart_s`` is what it costs to go on with it."""
        if speedup <= 0.0:
            return math.inf
        return (self.age_s + restart_s + self.left_s / speedup) / self.fair_s(cluster_gpus)

    def rhos(self, speedups: FloatArray, cluster_gpus: int, restarts_s: FloatArray) -> FloatArray:
        """Returns ρ of many bundles at once; all of them have a speed-up above 0."""
        whole: FloatArray = self.age_s + restarts_s + self.left_s / speedups
        return whole / self.fair_s(cluster_gpus)

    def rho_without(self, slowest: float, cluster_gpus: int) -> float:
        """Returns ρ of an app that gets nothing: ``NOTHING`` times that with its ``slowest`` bundle."""
        return NOTHING * self.rho(slowest, cluster_gpus)


def visible(rhos: Sequence[float], f: float) -> list[int]:
    """Returns the places of the worst-off ⌈(1 − f)·N⌉ apps, one at least; who is listed first wins a tie."""
    number = max(math.ceil((1.0 - f) * len(rhos) - 1e-9), 1)
    return sorted(range(len(rhos)), key=lambda place: (-rhos[place], place))[:number]
