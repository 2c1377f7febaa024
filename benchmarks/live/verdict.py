"""What hostile jobs did, all together, held against what is promised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.figures import Figures
from benchmarks.harness import Bench
from benchmarks.live.probing import Seen

CANCEL_S, LEFT_S = 10.0, 10.0
_MOST_MS, _MOST_HEAVY_MS, _MOST_MB = 100.0, 300.0, 100.0


@dataclass(slots=True)
class Outcome:
    """What all batches together did."""

    deaths: list[str] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)
    bombs: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    hindered: list[str] = field(default_factory=list)
    stubborn: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    harm: list[str] = field(default_factory=list)
    cancel_s: list[float] = field(default_factory=list)
    seen: dict[str, Seen] = field(default_factory=dict)


def judge(bench: Bench, outcome: Outcome, count: int, left: int) -> None:
    """Every promise about hostile jobs, as a gate."""
    figures = bench.figures
    figures.note(f"{count} poisons; cancelled within {max(outcome.cancel_s, default=0.0):.1f} s at most")
    for words in outcome.refused:
        figures.note(f"refused: {words}"[:500])
    for words in outcome.skipped:
        figures.note(f"NOT TRIED: {words}")
    if outcome.hindered:
        figures.note(f"kept from their deed by the system: {', '.join(outcome.hindered)}")
    _list(bench, "deaths of the control plane", outcome.deaths)
    _list(bench, "deeds that were never done", outcome.undone)
    _list(bench, "bombs that submit did not refuse in one line", outcome.bombs)
    _list(bench, "jobs of others that were touched", outcome.harm)
    _list(bench, f"jobs not ended {CANCEL_S:g} s after cancel", [*outcome.stubborn, *_slow(outcome.cancel_s)])
    _list(bench, f"processes left {LEFT_S:g} s after the end of their job", outcome.left)
    figures.at_most("hostile: processes left after the end of all", left, 0, "gate")
    _judge_answers(bench, outcome)


def _slow(times_s: Sequence[float]) -> list[str]:
    return [f"{each:.1f} s" for each in times_s if each > CANCEL_S]


def _list(bench: Bench, what: str, found: Sequence[str]) -> None:
    for words in found[:20]:
        bench.figures.note(f"{what}: {words}"[:500])
    bench.figures.at_most(f"hostile: {what}", len(found), 0, "gate")


def _judge_answers(bench: Bench, outcome: Outcome) -> None:
    """The plain figures against their gates; innocent jobs alone show what the machine costs by itself."""
    for label, seen in outcome.seen.items():
        bench.figures.note(
            f"{label}: p99 {seen.p99_ms:.0f} ms, longest {seen.longest_ms:.0f} ms of {len(seen.latencies_s)} answers, "
            f"+{seen.grown_mb:.0f} MB"
        )
    base_ms = max((seen.p99_ms for label, seen in outcome.seen.items() if "innocent" in label), default=0.0)
    bench.figures.note(f"/health p99 beside innocent jobs alone (the baseline): {base_ms:.0f} ms")
    for heavy, limit_ms in ((False, _MOST_MS), (True, _MOST_HEAVY_MS)):
        chosen = [
            seen.p99_ms
            for label, seen in outcome.seen.items()
            if ("heavy" in label) == heavy and "innocent" not in label
        ]
        if chosen:
            name = "hostile: /health p99 beside " + ("2 GB lines" if heavy else "poisons")
            judge_answers(bench.figures, name, max(chosen), limit_ms, base_ms)
    figures, unanswered = bench.figures, sum(seen.unanswered for seen in outcome.seen.values())
    figures.at_most("hostile: /health not answered", unanswered, 0, "gate")
    grown = max(seen.grown_mb for seen in outcome.seen.values())
    figures.at_most("hostile: memory of the control plane grew by", grown, _MOST_MB, "gate", "MB")


def judge_answers(figures: Figures, name: str, worst_ms: float, limit_ms: float, base_ms: float) -> None:
    """The gate is that of the issue, nothing added.

    Only where innocent jobs alone miss it, the plain figure says nothing; there what is added to theirs is the gate.
    """
    if worst_ms > limit_ms and base_ms > limit_ms:
        why = f"machine too slow, baseline {base_ms:.0f} ms"
        figures.not_judged(name, worst_ms, limit_ms, why, "ms")
        figures.at_most(f"{name}, more than beside innocent jobs", worst_ms - base_ms, limit_ms, "gate", "ms")
    else:
        figures.at_most(name, worst_ms, limit_ms, "gate", "ms")
