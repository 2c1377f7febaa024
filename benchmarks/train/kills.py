"""kill −9 again and again, of anybody at any moment; and workers that freeze instead of dying.

Every run must end with the very bits of an undisturbed run of one process.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median, quantiles

from benchmarks.harness import Bench, Stuck
from benchmarks.train.alone import finish, start
from benchmarks.train.assassin import Assassin, Harm
from benchmarks.train.live import LiveJob
from benchmarks.train.timeline import Diary, Lap, read_diaries
from elastane.train.reports.events import Event, Resized

WORKERS = 3
KILLS_PER_RUN = 12
EPOCHS = 50
STEPS = EPOCHS * 16
LEAVE_ALONE = 60
"""So many steps before the end nobody is harmed any more."""
PAUSE_S = 0.008
"""Sleep in each of the six units of a step, so that runs are long without much work."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run with its victims: what it ended with, and how long each victim held training up."""

    text: str
    harms: Sequence[Harm]
    recovery_s: Sequence[float]
    redone: int
    in_order: bool


def _recovery_s(harm: Harm, until_s: float, laps: Sequence[Lap], events: Sequence[Event]) -> float:
    """From the harm to the end of the first step that was completed after the survivors had re-formed."""
    later = [lap for lap in laps if harm.at_s < lap.end_s]
    wall_until_s = harm.wall_s + until_s - harm.at_s
    for event in events:
        if isinstance(event, Resized) and event.kind == "recover" and harm.wall_s < event.at_s < wall_until_s:
            return min(lap.end_s for lap in later if lap.step > event.step) - harm.at_s
    if harm.member:  # nobody told: believe the longest silence
        ends = [harm.at_s, *(lap.end_s for lap in later if lap.end_s < until_s)]
        return max(pairwise(ends), key=lambda pair: pair[1] - pair[0])[1] - harm.at_s
    return later[0].end_s - harm.at_s


def _in_order(diaries: Sequence[Diary]) -> bool:
    """No worker ever made a step twice or left one out, and together they made all of them."""
    each = all(b.step == a.step + 1 for d in diaries for a, b in pairwise(d.laps))
    return each and {lap.step for d in diaries for lap in d.laps} == set(range(1, STEPS + 1))


def _run(bench: Bench, name: str, limit: int, number: int) -> Outcome:
    folder, out = bench.folder / name, bench.folder / f"{name}.hash"
    chance = random.Random(f"{bench.seed} {name}")
    arguments = [str(folder / "stamps"), str(out), f"--epochs={EPOCHS}", f"--pause={PAUSE_S}"]
    with LiveJob("repeatable.py", folder / "run", arguments, workers=WORKERS, mode="consistent") as job:
        job.settled(WORKERS, 5)
        assassin = Assassin(job, WORKERS, STEPS - LEAVE_ALONE, chance, number)
        occasions = [assassin.in_peace]
        if number == signal.SIGKILL:
            occasions += [assassin.in_peace, assassin.while_preparing, assassin.after_asking]
        while not assassin.over and len(assassin.harms) < limit:
            chance.choice(occasions)()
        code = job.wait()
        words, events = job.words(), job.events()
    if code or not out.exists():
        raise Stuck(f"{name} ended with exit code {code}: {words}")
    diaries = read_diaries(folder / "stamps")
    laps = sorted((lap for d in diaries for lap in d.laps), key=lambda lap: lap.end_s)
    ends = [*(harm.at_s for harm in assassin.harms[1:]), laps[-1].end_s]
    times = [_recovery_s(h, end, laps, events) for h, end in zip(assassin.harms, ends, strict=True)]
    redone = max((e.redone_steps for e in events if isinstance(e, Resized)), default=0)
    return Outcome(out.read_text(), assassin.harms, times, redone, _in_order(diaries))


def _reference(bench: Bench) -> str:
    """The hash of one process that nobody disturbs."""
    out = bench.folder / "alone.hash"
    arguments = [str(bench.folder / "alone-stamps"), str(out), f"--epochs={EPOCHS}"]
    finish(start("repeatable.py", bench.folder / "alone", arguments))
    return out.read_text()


def kills(bench: Bench) -> None:
    """Kills until there are enough, then freezes."""
    wanted, reference = bench.count(100, 6), _reference(bench)
    runs: list[Outcome] = []
    while (left := wanted - sum(len(run.harms) for run in runs)) > 0:
        runs.append(_run(bench, f"run{len(runs)}", min(left, KILLS_PER_RUN), signal.SIGKILL))
        _describe(bench, runs[-1], reference)
    _judge(bench, runs, reference)
    frozen = [_run(bench, f"frozen{i}", 3, signal.SIGSTOP) for i in range(bench.count(3, 1))]
    times = [t for run in frozen for t in run.recovery_s]
    bench.figures.note(f"frozen: {', '.join(f'{t:.1f}' for t in times)} s until the next step")
    bench.figures.at_most("SIGSTOP: slowest recovery", max(times), 10.0, "gate", "s")
    wrong = sum(run.text != reference for run in frozen)
    bench.figures.at_most("SIGSTOP: runs that ended with other bits", wrong, 0, "gate")


def _describe(bench: Bench, run: Outcome, reference: str) -> None:
    end = "the reference's bits" if run.text == reference else "OTHER BITS"
    bench.figures.note(
        f"{len(run.harms)} kills ({sum(h.leader for h in run.harms)} of leaders, "
        f"{sum(h.in_switch for h in run.harms)} within a switch), "
        f"median {median(run.recovery_s):.2f} s, longest {max(run.recovery_s):.2f} s; ended with {end}"
    )


def _judge(bench: Bench, runs: Sequence[Outcome], reference: str) -> None:
    figures = bench.figures
    times = [t for run in runs for t in run.recovery_s]
    harms = [h for run in runs for h in run.harms]
    figures.note(
        f"{len(harms)} kills: {sum(h.leader for h in harms)} leaders, {sum(not h.member for h in harms)} newcomers, "
        f"{sum(h.in_switch for h in harms)} within a switch; median {median(times):.3f} s"
    )
    p95_s = quantiles(times, n=20, method="inclusive")[-1]
    figures.at_most("kill −9: training again, 95th percentile", p95_s, 1.0, "gate", "s")
    figures.at_most("kill −9: most steps redone at once", max(run.redone for run in runs), 1, "gate")
    wrong = sum(run.text != reference for run in runs)
    figures.at_most("kill −9: runs that ended with other bits", wrong, 0, "gate")
    disorder = sum(not run.in_order for run in runs)
    figures.at_most("kill −9: runs with steps lost or made twice", disorder, 0, "gate")
