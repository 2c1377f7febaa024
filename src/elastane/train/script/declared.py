"""Declared values come from the job's spec, as the script's process reads it; the script's own values win.

The variable is written by the service, but a job's environment is the job's: it is bounded and checked like any input.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from elastane.jobs.declared import VARIABLE, Batches, Declared, Goal
from elastane.train.errors import TrainError

_LONGEST = 10_000
"""Characters of the variable."""
_MOST_EPOCHS = 10**9
_LARGEST_BATCH = 2**31
_LONGEST_NAME = 200


def declared_here(environment: Mapping[str, str]) -> Declared:
    """What this process was told; nothing where the variable is not set.  Keys that are not known are left alone."""
    text = environment.get(VARIABLE, "")
    if not text:
        return Declared()
    if len(text) > _LONGEST:
        raise _wrong(f"must be at most {_LONGEST} characters, not {len(text)}")
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"is not JSON ({error})") from error
    found = _section("", values)
    epochs, target, batch = (found.get(name) for name in ("epochs", "target", "batch"))
    return Declared(
        None if epochs is None else _whole("epochs", epochs, _MOST_EPOCHS),
        None if target is None else _goal(_section("target", target)),
        None if batch is None else _batches(_section("batch", batch)),
    )


def _wrong(text: str) -> TrainError:
    return TrainError(f"{VARIABLE} {text}; it is set from the job's spec, leave it alone")


def _section(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(f"{name + ': ' if name else ''}must be a JSON object, not {type(value).__name__}")
    return value


def _whole(name: str, value: object, most: int) -> int:
    if type(value) is not int or not 1 <= value <= most:
        raise _wrong(f"{name}: must be a whole number from 1 to {most}, not {str(value)[:50]}")
    return value


def _goal(section: Mapping[str, Any]) -> Goal:
    metric, value, direction = section.get("metric"), section.get("value"), section.get("direction")
    if not isinstance(metric, str) or not 0 < len(metric) <= _LONGEST_NAME:
        raise _wrong("target.metric: must be the name of a metric")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _wrong(f"target.value: must be a number, not {str(value)[:50]}")
    if direction not in ("at-least", "at-most"):
        raise _wrong(f"target.direction: must be at-least or at-most, not {str(direction)[:50]}")
    return Goal(metric, float(value), direction)


def _batches(section: Mapping[str, Any]) -> Batches:
    size, most = _whole("batch.size", section.get("size"), _LARGEST_BATCH), section.get("max")
    largest = None if most is None else _whole("batch.max", most, _LARGEST_BATCH)
    if largest is not None and largest < size:
        raise _wrong(f"batch.max ({largest}) is below batch.size ({size})")
    return Batches(size, largest)


@dataclass(slots=True)
class Declarations:
    """The owner's declarations beside the script's own values; ``notes`` are the differences, a line each."""

    said: Declared
    notes: list[str] = field(default_factory=list)

    def epochs(self, own: int | None) -> int:
        """The number of epochs: the script's, or else the one declared."""
        if own is None and self.said.epochs is None:
            raise TrainError("job.epochs(): say how many, or declare epochs in the job's spec")
        return self._chosen("job.epochs", own, "epochs", self.said.epochs) or 0

    def batch_size(self, own: int | None) -> int | None:
        """The batch of the first loader: the script's, or else the one declared; None where nobody says."""
        batch = self.said.batch
        return self._chosen("job.loader: batch_size", own, "batch.size", batch.size if batch else None)

    def max_batch(self, own: int | None, step_size: int) -> int | None:
        """How far the batch may grow: what the script says, or else what was declared, but never below a step."""
        largest = self.said.batch.max if self.said.batch else None
        if own is None and largest is not None and largest < step_size:
            self.notes.append(
                f"batch.max {largest} of the job's spec is below the script's batch of {step_size}, which does not grow"
            )
            return step_size
        return self._chosen("job.loader: max_batch_size", own, "batch.max", largest)

    def _chosen(self, where: str, own: int | None, name: str, declared: int | None) -> int | None:
        if own is not None and declared is not None and own != declared:
            self.notes.append(
                f"{where} is {own} in the script, which wins; the job's spec declares {name} {declared}"
            )
        return own if own is not None else declared

    def take_notes(self) -> list[str]:
        """The differences that nobody was told of yet."""
        notes, self.notes = self.notes, []
        return notes
