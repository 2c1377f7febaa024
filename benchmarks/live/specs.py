"""Specs by the thousand, most of them wrong: each is refused in words or means exactly what it says."""

from __future__ import annotations

import json
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from benchmarks.harness import Bench
from benchmarks.live.nonsense import NASTY, good, spoiled, written
from elastane.errors import ElastaneError
from elastane.jobs import JobSpec, SpecError, dump_json, dump_yaml, load_spec, parse_spec


@dataclass(slots=True)
class Tally:
    """What became of them."""

    counts: Counter[str] = field(default_factory=Counter)
    crashes: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    nameless: list[str] = field(default_factory=list)
    longest_s: float = 0.0

    def judge(self, read: Callable[[], JobSpec], what: object) -> None:
        """One spec."""
        began_s = time.perf_counter()
        try:
            spec = read()
        except SpecError as error:
            self.counts["refused"] += 1
            if not error.problems or any(not p.text or "\n" in p.text for p in error.problems):
                self.nameless.append(f"{_short(what)}: {error}")
        except ElastaneError as error:
            self.counts["not a spec"] += 1
            if not str(error):
                self.nameless.append(_short(what))
        except Exception as error:  # what is looked for
            self.crashes.append(f"{type(error).__name__}: {error}: {_short(what)}")
        else:
            self.counts["accepted"] += 1
            self.wrong += [f"{problem}: {_short(what)}" for problem in _doubts(spec)]
        self.longest_s = max(self.longest_s, time.perf_counter() - began_s)


def specs(bench: Bench) -> None:
    """Fuzzed ones, then the hand list in every field."""
    count, chance = bench.count(100_000, 5000), random.Random(bench.seed)
    tally = Tally()
    for _ in range(count):
        values = spoiled(chance)
        tally.judge(lambda: parse_spec(values), values)  # noqa: B023
        text = written(chance, values) if chance.random() < 0.15 else None
        if text is not None and text.strip():
            tally.judge(lambda: load_spec(f"{text}\n"), text)  # noqa: B023
    _report(bench, "fuzzed", tally)
    by_hand = Tally()
    for values in _every_field():
        by_hand.judge(lambda: parse_spec(values), values)  # noqa: B023
    for text in _texts():
        by_hand.judge(lambda: load_spec(f"{text}\n"), text)  # noqa: B023
    _report(bench, "hand list", by_hand)


def _report(bench: Bench, name: str, tally: Tally) -> None:
    figures = bench.figures
    counts = ", ".join(f"{count:,} {what}" for what, count in sorted(tally.counts.items()))
    figures.note(f"{name}: {counts}; the slowest took {tally.longest_s * 1e3:.0f} ms")
    for words in [*tally.crashes[:5], *tally.wrong[:5], *tally.nameless[:5]]:
        figures.note(words)
    figures.at_most(f"specs, {name}: crashes", len(tally.crashes), 0, "gate")
    figures.at_most(f"specs, {name}: accepted and invalid", len(tally.wrong), 0, "gate")
    figures.at_most(f"specs, {name}: refused without a sentence per mistake", len(tally.nameless), 0, "gate")


def _doubts(spec: JobSpec) -> Iterator[str]:
    """What is wrong with a spec that was accepted, by rules written down once more and independently."""
    if parse_spec(json.loads(dump_json(spec))) != spec:
        yield "JSON changes it"
    if load_spec(dump_yaml(spec) + "\n") != spec:
        yield "YAML changes it"
    most = spec.workers.max
    if spec.workers.min < 1 or (most is not None and most < spec.workers.min):
        yield "workers"
    if not spec.command or any("\0" in word for word in spec.command):
        yield "command"
    if (
        not spec.name.isascii()
        or len(spec.name) > 100
        or any(c in spec.name for c in "/\\ \n\0")
        or not spec.name
    ):
        yield "name"
    if any("\0" in value or "=" in key for key, value in spec.env.items()):
        yield "env"
    numbers = [
        spec.weight,
        spec.worker.gpus,
        spec.worker.cpus,
        spec.checkpoint.every,
        spec.deadline_s(0.0) or 0.0,
    ]
    if not all(math.isfinite(number) for number in numbers) or min(numbers[:-1]) < 0:
        yield "a number"


def _every_field() -> Iterator[dict[object, object]]:
    """Each nasty value in each field, and as a whole spec."""
    names = sorted({name for seed in range(200) for name in good(random.Random(seed))})
    for name in names:
        for value in NASTY:
            yield {"command": "python train.py", name: value}


def _texts() -> list[str]:
    """Files that were made to hurt."""
    bomb = "\n".join(
        [f"a0: &a0 [{'x, ' * 9}x]"] + [f"a{i}: &a{i} [{f'*a{i - 1}, ' * 9}x]" for i in range(1, 30)]
    )
    return [
        "x" * 10_000_000,
        "command: " + "x" * 10_000_000,
        bomb,
        f"command: python\nenv: {{a: *a}}\n{bomb}",
        "command: " + "[" * 100_000,
        "{" * 100_000,
        '{"command": ' * 10_000,
        "command: a\ncommand: b",
        '{"command": "a", "command": "b"}',
        "command: !!python/object/apply:os.system ['id']",
        "command: &a [*a]",
        "? [1, 2]\n: 3",
        "<<: {command: python}\nname: x",
        "- command",
        "--- a\n--- b",
        "command: python\n\tname: x",
        'command: "\\ud800"',
        "command: python\nepochs: " + "9" * 5000,
        "\ufeffcommand: python",
        "command: python\x00",
        "\u202ecommand: python",
    ]


def _short(what: object) -> str:
    text = ascii(what)
    return text if len(text) <= 200 else f"{text[:150]}… ({len(text):,} characters)"
