"""Elastane's own policy against Pollux on the published workloads.  ``python -m benchmarks.policies [--only PART]``.

``--generated SEED …`` prints the same ratios on generated workloads instead, where there are no gates.

Every job declares its epochs; speed and noise are fitted online.  History is built from generated workloads that have
no job in common with those measured.  "Same conditions" means 30 s for a restart and decisions in 60 s rounds only,
for both policies; a rescale of 1 s with rounds of 30 s is compared with Pollux under the published conditions.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from benchmarks.figures import Figures
from benchmarks.published import MEAN_JCT_S, WORKLOADS, replay_spec
from benchmarks.views import crowded_view, settled, with_work
from elastane.models.history import save_pool
from elastane.policies.elastane import Elastane
from elastane.policies.view import View
from elastane.sim.history import gathered
from elastane.sim.metrics import Summary, summarise
from elastane.sim.run import simulate
from elastane.sim.spec import RunSpec

PARTS = ("latency", "osdi21", "corrected", "known", "shipped", "errors")
PAST = (201, 202, 203)
"""Generated workloads that history is built from."""
POOL = Path("build/bench/policies-history.json")


@dataclass(frozen=True)
class Condition:
    """One row of the comparison: what is different, and what the ratio of mean completion times may be."""

    name: str
    load: float
    history: bool
    fast: bool
    gate: float
    goal: float

    def spec(self, policy: str, workload: int, compat: bool) -> RunSpec:
        """Our own policy's run."""
        spec = replace(
            base_spec(policy, workload, compat, self.load), history=str(POOL) if self.history else None
        )
        if not self.fast:
            return spec
        return replace(spec, physics=replace(spec.physics, restart_s=1.0, interval_s=30.0))


CONDITIONS = (
    Condition("same conditions", 1.0, history=False, fast=False, gate=0.90, goal=0.80),
    Condition("history", 1.0, history=True, fast=False, gate=0.84, goal=0.75),
    Condition("history, 1 s rescale, 30 s rounds", 1.0, history=True, fast=True, gate=0.76, goal=0.68),
    Condition("same conditions, load 2", 2.0, history=False, fast=False, gate=0.78, goal=0.68),
    Condition("history, load 2", 2.0, history=True, fast=False, gate=0.75, goal=0.65),
    Condition("history, 1 s rescale, 30 s rounds, load 2", 2.0, history=True, fast=True, gate=0.70, goal=0.60),
)


def base_spec(policy: str, workload: int, compat: bool, load: float) -> RunSpec:
    """The published conditions at some load; the corrected physics decides in rounds too, for both sides alike.

    ``workload`` is the number of a published one, else the seed of a generated one.
    """
    spec = replace(replay_spec(policy, WORKLOADS[0], compat), load=load)
    if workload in WORKLOADS:
        spec = replace(spec, workload=replay_spec(policy, workload, compat).workload)
    else:
        spec = replace(spec, workload=f"pollux:{workload}")
    return spec if compat else replace(spec, physics=replace(spec.physics, rounds_only=True))


def outcome(spec: RunSpec) -> Summary:
    """In a process of its own."""
    return summarise(simulate(spec))


def remember() -> None:
    """Build the history from workloads that are not measured."""
    results = [simulate(base_spec("elastane", seed, False, 1.0)) for seed in PAST]
    POOL.parent.mkdir(parents=True, exist_ok=True)
    save_pool(gathered(results), POOL)


class Runs:
    """Outcomes, each computed once, on all cores."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool, self._known = pool, dict[RunSpec, Summary]()

    def __call__(self, specs: list[RunSpec]) -> list[Summary]:
        """In the order asked for."""
        new = list({spec: None for spec in specs if spec not in self._known})
        for spec, found in zip(new, self._pool.map(outcome, new), strict=True):
            self._known[spec] = found
        return [self._known[spec] for spec in specs]


def mean_s(summary: Summary) -> float:
    """A run in which nothing finished has no mean and is of no use here."""
    assert summary.mean_jct_s is not None
    return summary.mean_jct_s


def against_pollux(figures: Figures, runs: Runs, compat: bool) -> None:
    """All conditions under one physics."""
    physics = "osdi21" if compat else "corrected physics"
    for condition in CONDITIONS:
        theirs = runs([base_spec("pollux", w, compat, condition.load) for w in WORKLOADS])
        ours = runs([condition.spec("elastane", w, compat) for w in WORKLOADS])
        base = [mean_s(one) for one in theirs]
        if compat and condition.load == 1.0:
            base = [MEAN_JCT_S["pollux"][w] for w in WORKLOADS]
        ratios = [mean_s(one) / other for one, other in zip(ours, base, strict=True)]
        name = f"{physics}, {condition.name}: mean JCT over Pollux"
        figures.note(f"{name}: {', '.join(f'{ratio:.3f}' for ratio in ratios)}")
        figures.at_most(name, statistics.mean(ratios), condition.gate, "gate")
        figures.at_most(name, statistics.mean(ratios), condition.goal, "goal")
        if not condition.fast:
            _tails(figures, f"{physics}, {condition.name}", ours, theirs)


def on_generated(figures: Figures, runs: Runs, seeds: list[int]) -> None:
    """The same ratios on generated workloads, under both physics, each against our own Pollux."""
    for compat, condition in product((True, False), CONDITIONS):
        theirs = runs([base_spec("pollux", seed, compat, condition.load) for seed in seeds])
        ours = runs([condition.spec("elastane", seed, compat) for seed in seeds])
        pairs = list(zip(ours, theirs, strict=True))
        ratios = {
            "mean JCT": [mean_s(one) / mean_s(other) for one, other in pairs],
            "makespan": [(one.makespan_s or 0.0) / (other.makespan_s or 1.0) for one, other in pairs],
        }
        for label, values in ratios.items():
            each = ", ".join(f"{value:.3f}" for value in values)
            name = f"{'osdi21' if compat else 'corrected'}, {condition.name}: {label} over Pollux"
            figures.note(f"{name}: {statistics.mean(values):.4f} ({each})")


def _tails(figures: Figures, name: str, ours: list[Summary], theirs: list[Summary]) -> None:
    pairs = list(zip(ours, theirs, strict=True))
    tails = {
        "p99 JCT": [(one.p99_jct_s or 0.0) / (other.p99_jct_s or 1.0) for one, other in pairs],
        "makespan": [(one.makespan_s or 0.0) / (other.makespan_s or 1.0) for one, other in pairs],
    }
    for label, ratios in tails.items():
        figures.note(f"{name}: {label} over Pollux: {', '.join(f'{ratio:.3f}' for ratio in ratios)}")
        figures.at_most(f"{name}: {label} over Pollux, mean", statistics.mean(ratios), 1.05, "gate")
    worst, yardstick = (max(one.max_rho or 0.0 for one in side) for side in (ours, theirs))
    figures.at_most(f"{name}: worst finish-time ratio", worst, yardstick, "gate")


def what_is_known(figures: Figures, runs: Runs) -> None:
    """Total work unknown, and everything known."""
    theirs = runs([base_spec("pollux", w, False, 1.0) for w in WORKLOADS])

    def ratio(specs: Iterator[RunSpec]) -> float:
        ours = runs(list(specs))
        return statistics.mean(mean_s(one) / mean_s(other) for one, other in zip(ours, theirs, strict=True))

    blind = ratio(replace(base_spec("elastane", w, False, 1.0), declare="nothing") for w in WORKLOADS)
    figures.at_most("corrected physics, total work unknown: mean JCT over Pollux", blind, 1.0, "gate")
    oracle = ratio(base_spec("elastane-oracle", w, False, 1.0) for w in WORKLOADS)
    figures.note(f"corrected physics, all-knowing: mean JCT over Pollux {oracle:.3f}")


def as_shipped(figures: Figures, runs: Runs) -> None:
    """Decisions when jobs come and go, too: how few jobs fare much worse than with an equal share."""
    specs = [base_spec("elastane", w, False, 1.0) for w in WORKLOADS]
    ours = runs([replace(spec, physics=replace(spec.physics, rounds_only=False)) for spec in specs])
    tails = [one.p99_rho or 0.0 for one in ours]
    figures.note(f"as shipped, load 1: 99th percentile of ρ: {', '.join(f'{tail:.2f}' for tail in tails)}")
    figures.at_most("as shipped, load 1: 99 % of jobs have ρ below, mean", statistics.mean(tails), 2.0, "gate")


def misjudged(figures: Figures, runs: Runs) -> None:
    """Declarations and measurements that are wrong by 40 %, for both."""

    def mistaken(policy: str, workload: int) -> RunSpec:
        spec = base_spec(policy, workload, False, 1.0)
        return replace(spec, declare_error=0.4, physics=replace(spec.physics, observation_noise=0.4))

    ours, theirs = (runs([mistaken(policy, w) for w in WORKLOADS]) for policy in ("elastane", "pollux"))
    ratios = [mean_s(one) / mean_s(other) for one, other in zip(ours, theirs, strict=True)]
    figures.note(f"errors of 40 %: mean JCT over Pollux: {', '.join(f'{ratio:.3f}' for ratio in ratios)}")
    figures.at_most("errors of 40 %: mean JCT over Pollux", statistics.mean(ratios), 1.0, "gate")


def latency(figures: Figures) -> None:
    """Whole decisions, placement included, against twice the ground floor's goals for the count problem alone."""
    for jobs, gpus, gate_ms in ((40, 64, 10.0), (200, 64, None), (300, 1024, 80.0), (2000, 1024, 300.0)):
        decided(figures, f"{jobs} jobs / {gpus} GPUs", crowded_view(jobs, gpus), gate_ms)
    for jobs, gpus in ((40, 64), (300, 1024), (2000, 1024)):
        view = crowded_view(jobs, gpus, types=("a100", "t4"))
        decided(figures, f"{jobs} jobs / {gpus} GPUs of two types", view, None)


def decided(figures: Figures, what: str, bare: View, gate_ms: float | None) -> None:
    """How long one decision takes, at first and in the rounds after."""
    policy = Elastane()
    view = with_work(bare, policy.needs.info)
    began = time.process_time()
    after = settled(view, policy)
    cold_ms = (time.process_time() - began) * 1e3
    took = []
    for _ in range(5):
        began = time.process_time()
        policy.decide(after)
        took.append((time.process_time() - began) * 1e3)
    name = f"decision, {what}, warm, CPU ms"
    figures.note(f"{name}: {min(took):.1f}; cold {cold_ms:.1f}")
    if gate_ms is not None:
        figures.at_most(name, min(took), gate_ms, "gate")


def main() -> None:
    """Run the parts asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--generated", type=int, nargs="+", metavar="SEED", help="on pollux:SEED instead")
    options = parser.parse_args()
    figures = Figures("policies")
    with ProcessPoolExecutor(options.jobs) as pool:
        runs = Runs(pool)
        if options.only != ["latency"]:
            remember()
        if options.generated:
            on_generated(figures, runs, options.generated)
            return
        parts: dict[str, Callable[[], None]] = {
            "latency": lambda: latency(figures),
            "osdi21": lambda: against_pollux(figures, runs, compat=True),
            "corrected": lambda: against_pollux(figures, runs, compat=False),
            "known": lambda: what_is_known(figures, runs),
            "shipped": lambda: as_shipped(figures, runs),
            "errors": lambda: misjudged(figures, runs),
        }
        for name, part in parts.items():
            if not options.only or name in options.only:
                part()
    figures.finish()


if __name__ == "__main__":
    main()
