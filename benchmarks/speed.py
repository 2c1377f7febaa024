"""How fast the simulator is and how long decisions take.  ``python -m benchmarks.speed``."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.exact import exact_counts
from benchmarks.figures import Figures
from benchmarks.published import replay
from benchmarks.views import crowded_view, settled
from elastane.models.fitting import Observations, fit_throughput
from elastane.models.speed import FloatArray, IntArray
from elastane.models.throughput import gradient_time_s, overlapped_s, sync_time_s
from elastane.policies.allocation.layout import lay_out
from elastane.policies.allocation.objective import contribution
from elastane.policies.allocation.problem import Problem, build_problem
from elastane.policies.allocation.solver import best_counts
from elastane.policies.pollux import Pollux
from elastane.policies.view import View


def replay_speed(figures: Figures) -> None:
    """Gate: three policies on workload 6 in 15 s of CPU time together."""
    used = {}
    for policy in ("pollux", "optimus-oracle", "tiresias"):
        used[policy] = replay(policy, 6)[1].cpu_s
    figures.note(", ".join(f"{policy} {seconds:.2f} s" for policy, seconds in used.items()))
    total = sum(used.values())
    figures.at_most("workload 6, three policies, CPU s", total, 15.0, "gate")
    figures.at_most("workload 6, three policies, CPU s", total, 6.0, "goal")


def fit_speed(figures: Figures) -> None:
    """Goal: 1 ms per fit, many jobs in one call."""
    from elastane.models.catalog import catalog

    rng = np.random.default_rng(0)
    observed = []
    for app in [app for app in catalog().values() for _ in range(20)]:
        theta = app.params["t4"]
        low, high = app.per_gpu["t4"]
        workers = rng.choice([1, 2, 4, 8, 16], 12).astype(np.float64)
        nodes = np.ceil(workers / 4)
        per_gpu = rng.integers(low, high + 1, 12).astype(np.float64)
        gradient_s = gradient_time_s(theta, per_gpu)  # type: ignore[misc]
        step_s = overlapped_s(gradient_s, sync_time_s(theta, nodes, workers), theta.gamma)  # type: ignore[arg-type]
        noise = np.exp(rng.normal(0, 0.03, (2, 12)))
        gradient_s = gradient_s * noise[0]
        observed.append(
            Observations(nodes, workers, per_gpu, gradient_s, np.maximum(step_s * noise[1], gradient_s))
        )
    best = min(_timed(partial(fit_throughput, observed)) for _ in range(3))
    figures.at_most(
        "fit, ms each, 120 jobs with 12 points in one call", best * 1e3 / len(observed), 1.0, "goal"
    )


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _count_problem_ms(view: View, repeats: int, fresh: bool) -> float:
    """Median milliseconds from view to counts."""
    times: list[float] = []
    for _ in range(repeats):
        if fresh:
            view = crowded_view(len(view.jobs), view.total_gpus, seed=len(times))
        times.append(_timed(partial(_counts, view)) * 1e3)
    return float(np.median(times))


def _problem(view: View, p: float = -1.0) -> Problem:
    return build_problem(view, p, delay_s=30.0, fair_on_one_node=True, max_explore=2.0)


def _counts(view: View) -> IntArray:
    problem = _problem(view)
    return best_counts(problem.count_values(), int(problem.node_gpus.sum()))


def latency(figures: Figures) -> None:
    """Gates at twice the goals: 5 ms, 40 ms, 150 ms warm, 600 ms cold."""
    for jobs, gpus, goal_ms in ((40, 64, 5.0), (300, 1024, 40.0), (2000, 1024, 150.0)):
        view = settled(crowded_view(jobs, gpus))
        warm_ms = _count_problem_ms(view, 15, fresh=False)
        name = f"count problem, {jobs} jobs / {gpus} GPUs, warm, ms"
        figures.at_most(name, warm_ms, 2 * goal_ms, "gate")
        figures.at_most(name, warm_ms, goal_ms, "goal")
        whole = float(np.median([_timed(partial(Pollux().decide, view)) * 1e3 for _ in range(7)]))
        figures.note(f"the whole decision with placement: {whole:.1f} ms")
    cold_ms = _count_problem_ms(crowded_view(2000, 1024), 3, fresh=True)
    name = "count problem, 2000 jobs / 1024 GPUs, cold, ms"
    figures.at_most(name, cold_ms, 1200.0, "gate")
    figures.at_most(name, cold_ms, 600.0, "goal")


def optimality(figures: Figures) -> None:
    """Gate: within 1 % of the exact optimum (HiGHS), running jobs only."""
    for jobs, gpus in ((40, 64), (300, 1024)):
        view = settled(crowded_view(jobs, gpus))
        for p in (-1.0, 1.0):
            problem = _problem(view, p)
            values = problem.count_values()
            total = int(problem.node_gpus.sum())
            ours, best = best_counts(values, total), exact_counts(values, total)
            running = (ours > 0) & (best > 0)
            rows = np.flatnonzero(running)
            mine, theirs = (_power_mean(values[rows, counts[rows]], p) for counts in (ours, best))
            gap = max(0.0, 1.0 - mine / theirs)
            figures.at_most(f"gap to the optimum, {jobs} / {gpus}, p = {p:g}, %", gap * 100, 1.0, "gate")
            placed = lay_out(problem, ours)
            gained = np.array([_placed_value(problem, int(j), placed.get(int(j), {})) for j in rows])
            loss = 1.0 - _power_mean(gained, p) / mine
            figures.note(f"placement loss apart: {loss:.2%} of the power mean; {len(rows)} of {jobs} jobs run")


def _power_mean(contributions: FloatArray, p: float) -> float:
    return float(abs(contributions.mean()) ** (1.0 / p))


def _placed_value(problem: Problem, job: int, row: dict[int, int]) -> float:
    count = sum(row.values())
    speedup = problem.speedup_of(job, len(row), count)
    held = {int(n): int(problem.held[job, n]) for n in problem.held[job].nonzero()[0]}
    if row != held:
        speedup *= float(problem.factor[job, count])
    return float(contribution(np.array(speedup), problem.p))


if __name__ == "__main__":
    found = Figures("speed")
    replay_speed(found)
    fit_speed(found)
    latency(found)
    optimality(found)
    found.finish()
