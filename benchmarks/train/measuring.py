"""What gradient statistics cost: CPU seconds of steps with and without them, in turns in the same processes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean, quantiles

from benchmarks.harness import Bench
from benchmarks.train.live import LiveJob

Steps = Sequence[tuple[str, float]]


def measuring(bench: Bench) -> None:
    """One worker compares gradients of successive steps, two compare their own: both kinds are timed."""
    for task in ("cnn", "transformer", "mlp"):
        for workers, optimizer in ((1, "adamw"), (2, "sgd")):
            name = f"{task}, {optimizer}, {workers} worker{'s' * (workers > 1)}"
            out = bench.folder / f"{task}-{workers}.json"
            arguments = [str(out), f"--task={task}", f"--optimizer={optimizer}"]
            arguments += [f"--rounds={bench.count(40, 12)}"]
            with LiveJob("statistics_cost.py", out.with_suffix(""), arguments, workers=workers) as job:
                found = job.result(out)
            off = [step for row in found["rows"] for step in row["off"]]
            on = [step for row in found["rows"] for step in row["on"]]
            plain_s, measured_s = _undisturbed_s(off), _undisturbed_s(on)
            bench.figures.note(
                f"{name}: measured every {found['stride']} steps; {plain_s * 1e3:.2f} → {measured_s * 1e3:.2f} CPU ms"
            )
            bench.figures.at_most(f"{name}: cost of measuring", measured_s / plain_s - 1.0, 0.03, "gate")


def _undisturbed_s(steps: Steps) -> float:
    """The mean step as it is without other work on the machine: each kind of step at its lower quartile."""
    usual_s = {kind: quantiles(times, n=4)[0] for kind, times in _by_kind(steps).items()}
    return fmean(usual_s[kind] for kind, _ in steps if kind in usual_s)


def _by_kind(steps: Steps) -> Mapping[str, list[float]]:
    times: dict[str, list[float]] = defaultdict(list)
    for kind, seconds in steps:
        times[kind].append(seconds)
    return {kind: found for kind, found in times.items() if len(found) > 1}
