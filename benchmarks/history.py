"""What the history pool is worth: errors of what it recalls, how quickly, and completion times with and without.

``python -m benchmarks.history [--measured]``: the past are generated workloads 201 to 203, the jobs asked about
those of 204; ``--measured`` takes measured profiles (../shared/data) as truth instead of the built-in catalog.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.figures import Figures, shared_data
from elastane.models.history import Experience, Memory, Pool, save_pool
from elastane.models.online import Learner
from elastane.sim.history import gathered, identity, recaller, signature_of
from elastane.sim.metrics import summarise
from elastane.sim.run import prepare, simulate
from elastane.sim.spec import RunSpec
from elastane.simcore.job_run import Arrival

PAST, NEW = (201, 202, 203), 204
PLACES = ((1, 1), (1, 2), (1, 4), (2, 8), (4, 16), (8, 32))
FILE = Path("build/bench/history-pool.json")


def speeds(figures: Figures, jobs: Sequence[tuple[Arrival, Memory]]) -> None:
    """Goodput at the start against the truth, over places of all kinds."""
    errors, within, beyond = [], [], []
    for arrival, memory in jobs:
        limits = arrival.behaviour.limits
        model = Learner(limits, memory).model() if limits else None
        if model is None:
            continue
        places = [(n, k) for n, k in PLACES if k <= model.max_useful]
        nodes, workers = (np.array(column) for column in zip(*places, strict=True))
        truth = arrival.behaviour.oracle(0.0, limits)[1].rates(nodes, workers)
        off = np.abs(np.log(model.rates(nodes, workers) / np.maximum(truth, 1e-12)))
        seen, known = (truth > 0) & (workers <= memory.most_workers), truth > 0
        errors += off[seen].tolist()
        within += (off[seen] <= 1.645 * model.relative_error).tolist()
        beyond += off[known & ~seen].tolist()
    p90 = float(np.quantile(errors, 0.9))
    figures.note(f"goodput recalled before the first step: {len(errors)} predictions, 90 % within {p90:.1%}")
    figures.note(f"of them within the stated 90 % interval: {np.mean(within):.1%}")
    if beyond:
        middle = statistics.median(beyond)
        figures.note(
            f"with more workers than any neighbour had: {len(beyond)} predictions, median {middle:.1%}"
        )
    figures.at_most("median error of recalled goodput", statistics.median(errors), 0.10, "gate")


def totals(figures: Figures, jobs: Sequence[tuple[Arrival, Memory]]) -> None:
    """Total work against the truth."""
    errors, within = [], []
    for arrival, memory in jobs:
        total = memory.total_work()
        if total is not None:
            truth = arrival.behaviour.total_work
            errors.append(abs(total.mean / truth - 1.0))
            within.append(abs(total.mean - truth) <= 1.645 * total.std)
    figures.note(
        f"total work recalled: median error {statistics.median(errors):.1%}, largest {max(errors):.1%}"
    )
    figures.note(f"of them within the stated 90 % interval: {np.mean(within):.1%}")


def scattered(figures: Figures, name: str) -> None:
    """Total work where jobs of one application differ much in length: synthetic traces, another seed as the past."""
    spec = RunSpec(f"synth:{name},jobs=600", "elastane", cluster="64x8:t4", skip_bad=True)
    past, new = (prepare(replace(spec, workload=f"{spec.workload},seed={seed}"))[1] for seed in (1, 2))
    pool = Pool(
        Experience(identity(each), signature_of(each), total_work=each.behaviour.total_work, shared=True)
        for each in past
    )
    within, halfway = [], []
    for arrival in new:
        memory, truth = pool.recall(signature_of(arrival)), arrival.behaviour.total_work
        whole, half = (memory.remaining(part) if memory else None for part in (0.0, truth / 2))
        if whole is not None and half is not None:
            within.append(abs(whole.mean - truth) <= 1.645 * whole.std)
            halfway.append(abs(half.mean - truth / 2) <= 1.645 * half.std)
    figures.note(
        f"synth:{name}: total work within the stated 90 % interval {np.mean(within):.1%} of {len(within)}; "
        f"what is left, halfway: {np.mean(halfway):.1%}"
    )


def quickness(figures: Figures, pool: Pool, arrivals: Sequence[Arrival]) -> None:
    """Recall from 10,000 experiences, each question new."""
    past = list(pool)
    large = Pool(most_alike=10_000)
    for number in range(10_000):
        each = past[number % len(past)]
        app = f"{each.signature.app}-{number // 500}"
        large.add(replace(each, id=f"{number}", signature=replace(each.signature, app=app)))
    took, fits = [], []
    for number, arrival in enumerate(arrivals[:60]):
        signature = replace(
            signature_of(arrival), app=f"{arrival.behaviour.app}-{number % 20}", batch=number + 1
        )
        started = time.process_time()
        memory = large.recall(signature)
        took.append((time.process_time() - started) * 1e3)
        if memory is not None:
            started = time.process_time()
            assert memory.expected
            fits.append((time.process_time() - started) * 1e3)
    figures.note(f"the fit of what was recalled, once per answer: {statistics.median(fits):.1f} ms median")
    figures.at_most(
        f"recall from {len(large):,} experiences, median", statistics.median(took), 5.0, "gate", "ms"
    )


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measured", action="store_true")
    parser.add_argument("--policies", default="elastane")
    options = parser.parse_args()
    figures = Figures("history")
    profiles = str(shared_data("data", "pollux", "profiles")) if options.measured else None
    base = RunSpec(f"pollux:{NEW}", "elastane", profiles=profiles)
    pool = gathered(simulate(replace(base, workload=f"pollux:{seed}")) for seed in PAST)
    save_pool(pool, FILE)
    figures.note(f"past: {len(pool)} jobs of pollux:{PAST}, {FILE.stat().st_size / 1e6:.1f} MB")
    _, arrivals, _ = prepare(base)
    recall, _ = recaller(str(FILE))
    known = [(arrival, memory) for arrival in arrivals if (memory := recall(arrival))]
    figures.note(f"jobs of pollux:{NEW} that are like one of them: {len(known)} of {len(arrivals)}")
    assert not any(identity(arrival) in pool for arrival in arrivals)
    speeds(figures, known)
    totals(figures, known)
    for name in ("philly-subset", "itp"):
        scattered(figures, name)
    quickness(figures, pool, arrivals)
    for policy in options.policies.split(","):
        for declare in ("epochs", "nothing"):
            spec = replace(base, policy=policy, declare=declare)
            means = [summarise(simulate(replace(spec, history=file))).mean_jct_s for file in (None, str(FILE))]
            assert means[0] is not None
            assert means[1] is not None
            figures.note(
                f"{policy}, {declare} declared: mean JCT {means[0]:.0f} s, with history {means[1]:.0f} s "
                f"({means[1] / means[0]:.3f})"
            )
    figures.finish()


if __name__ == "__main__":
    main()
