"""Parses lines of training logs to records: our own events, JSON lines of others, Lightning's CSV, HF Trainer's state.

Foreign logs are read by the names that fields usually have; what is not there stays None.  A line that is torn or no
object is skipped and counted.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from elastane.textfiles import LONGEST_LINE

_TIMES = ("at_s", "timestamp", "_timestamp", "time", "wall_time", "ts")
_STEPS = ("global_step", "step", "_step", "trainer/global_step", "current_steps", "iteration", "iter")
_TOTALS = ("max_steps", "total_steps", "num_steps")
_EPOCHS = ("num_train_epochs", "max_epochs", "epochs", "total_epochs")
_VALIDATIONS = ("eval_", "eval/", "val_", "val/", "valid_", "valid/", "validation")


@dataclass(frozen=True, slots=True)
class Record:
    """The content of one line, None where it has none.  ``step`` counts complete steps of all sessions.

    ``kind`` is the type of one of our own events, or "" for a line of another's log.
    """

    at_s: float | None = None
    step: int | None = None
    epoch: float | None = None
    fraction: float | None = None
    total_steps: int | None = None
    epochs: float | None = None
    kind: str = ""
    validation: bool = False
    validation_s: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    """The values a validation measured, by metric; they may be infinite or NaN."""
    rank: int = 0
    blocking_s: float | None = None
    setting: tuple[int, int] | None = None
    """Workers and batch: when they change, rates do."""
    outcome: str = ""


class Lines:
    """Parses text to records, piece by piece; ``skipped`` counts lines that were none."""

    def __init__(self) -> None:
        self.skipped = 0
        self._rest = ""
        self._header: Sequence[str] | None = None

    def feed(self, text: str) -> Iterator[Record]:
        """Yields the records of all lines that are complete; the last, unfinished one waits for its end."""
        *whole, self._rest = (self._rest + text).split("\n")
        if len(self._rest) > LONGEST_LINE:  # no log line is so long; without an end it would only grow
            self._rest, self.skipped = "", self.skipped + 1
        for line in whole:
            record = self._record(line.strip())
            if record is not None:
                yield record

    def _record(self, line: str) -> Record | None:
        if not line:
            return None
        if line.startswith("{"):
            document = _object(line)
            if document is not None:
                return record_of(document)
        elif self._header is None and "step" in (header := _cells(line)):
            self._header = header
            return None
        elif self._header is not None:
            values = _cells(line)
            if len(values) == len(self._header):
                return record_of(dict(zip(self._header, values, strict=True)))
        self.skipped += 1
        return None


def record_of(row: Mapping[str, Any]) -> Record:
    """Parses one JSON object or row of a table."""
    kind = row.get("type")
    if isinstance(kind, str) and "at_s" in row:
        return _own(kind, row)
    step, rank = _first(row, _STEPS), _number(row.get("rank"))
    values = {
        str(name): number
        for name, value in row.items()
        if str(name).startswith(_VALIDATIONS) and (number := _any_number(value)) is not None
    }
    return Record(
        at_s=_moment(row),
        step=None if step is None else int(step),
        epoch=_number(row.get("epoch")),
        total_steps=None if (total := _first(row, _TOTALS)) is None else int(total),
        epochs=_first(row, _EPOCHS),
        validation=bool(values),
        validation_s=_number(row.get("eval_runtime")),
        values=values,
        rank=0 if rank is None else int(rank),
        # HF Trainer closes its log with a summary.
        outcome="finished" if "train_runtime" in row else "",
    )


def _own(kind: str, row: Mapping[str, Any]) -> Record:
    """Parses one event of ``events.jsonl``; the fields are described in docs/prediction.md."""
    workers, batch = _number(row.get("workers")), _number(row.get("batch"))
    step = _number(row.get("step"))
    return Record(
        at_s=_number(row.get("at_s")),
        step=None if step is None else int(step),
        epoch=_number(row.get("epoch")),
        fraction=_number(row.get("fraction")),
        epochs=_number(row.get("epochs")),
        kind=kind,
        validation=kind == "evaluated",
        values=_values(row.get("metrics")) if kind == "evaluated" else {},
        blocking_s=_number(row.get("blocking_s")),
        setting=None if workers is None or batch is None else (int(workers), int(batch)),
        outcome=str(row.get("outcome", "")) if kind == "ended" else "",
    )


def _cells(line: str) -> list[str]:
    """Splits a row into its cells; empty where it is no row, as with a carriage return in its middle."""
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def _object(line: str) -> dict[str, Any] | None:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _values(metrics: Any) -> dict[str, float]:
    if not isinstance(metrics, Mapping):
        return {}
    found = {str(name): _any_number(value) for name, value in metrics.items()}
    return {name: number for name, number in found.items() if number is not None}


def _moment(row: Mapping[str, Any]) -> float | None:
    """Reads the time of a line, written as Unix time or in ISO 8601."""
    number = _first(row, _TIMES)
    if number is not None:
        return number
    for text in (row.get(name) for name in _TIMES):
        if isinstance(text, str):
            try:
                return datetime.fromisoformat(text).timestamp()
            except (ValueError, OverflowError, OSError):
                continue
    return None


def _first(row: Mapping[str, Any], names: Sequence[str]) -> float | None:
    return next((value for name in names if (value := _number(row.get(name))) is not None), None)


def _number(value: Any) -> float | None:
    number = _any_number(value)
    return number if number is not None and math.isfinite(number) else None


def _any_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
