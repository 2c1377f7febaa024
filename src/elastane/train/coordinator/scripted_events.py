"""What is to happen to a job on the way, as its owner wrote it: resizes, and faults made on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from elastane.train.errors import TrainError


@dataclass(frozen=True, slots=True)
class Wish:
    """Something to be done ``at`` seconds after training began, or once it has made ``at`` steps."""

    at: float
    action: str
    """``resize``, ``kill``, ``kill-leader`` or ``stop`` (freeze)."""
    workers: int = 0
    steps: bool = False
    settled: bool = False
    """Not before the last change of members is complete."""


def parse_wishes(resize: str | None, chaos: Sequence[str]) -> tuple[Wish, ...]:
    """``1:30s,4:60s`` and ``kill:45s`` as wishes; ``kill:500steps`` counts steps instead of seconds."""
    wishes = []
    for part in (resize or "").split(","):
        if part.strip():
            count, at, steps = _parts(part, "--resize", "WORKERS:TIME, as in 4:60s or 4:500steps")
            if not count.isdigit() or int(count) < 1:
                raise TrainError(f"--resize: {count!r} is not a number of workers")
            wishes.append(Wish(at, "resize", int(count), steps))
    for part in ",".join(chaos).split(","):
        if part.strip():
            action, at, steps = _parts(part, "--chaos", "WHAT:TIME, as in kill:45s or kill:500steps")
            if action not in ("kill", "kill-leader", "stop"):
                raise TrainError(f"--chaos: {action!r} is not one of kill, kill-leader, stop")
            wishes.append(Wish(at, action, steps=steps))
    return tuple(sorted(wishes, key=lambda wish: wish.at))


def _parts(text: str, option: str, form: str) -> tuple[str, float, bool]:
    what, _, when = text.strip().partition(":")
    number = when.removesuffix("steps").removesuffix("s")
    try:
        return what, float(number), when.endswith("steps")
    except ValueError:
        raise TrainError(f"{option}: {text.strip()!r} is not {form}") from None
