"""Microsoft's Philly trace of 2017: the original JSON job log, and the CSV subset most papers use."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from elastane.errors import ElastaneError
from elastane.sim.workloads.formats.base import NO_GPU, CsvFormat, Entry, Format, LeftOut, Options
from elastane.sim.workloads.rows import BadRow, Row
from elastane.sim.workloads.trace import TraceJob
from elastane.textfiles import UNREADABLE, open_text

_CLOCK_CHANGE = datetime(2017, 11, 5, 2)
_EPOCH = datetime(2017, 1, 1)
_PACIFIC = "times are Pacific without a zone; the clock change of 2017-11-05 is undone"


def pacific_s(wall: datetime) -> float:
    """Seconds of real time at a Pacific wall clock; the hour that occurs twice is read as its first pass."""
    if wall.tzinfo:
        wall = wall.replace(tzinfo=None)
    return (wall - _EPOCH).total_seconds() + (3600.0 if wall >= _CLOCK_CHANGE else 0.0)


class PhillyCsvFormat(CsvFormat):
    """``timestamp,duration,num_gpus,gpu_time,cluster``: 82,247 of Philly's jobs, as Pollux ships them."""

    name = "philly-csv"
    title = "Philly subset CSV (Pollux, Sia, ElasticFlow)"
    columns = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")
    notes = (_PACIFIC,)

    def job(self, row: Row, _options: Options, /) -> Entry:
        """One line; the rows carry no name, so the line number is it."""
        gpus = row.whole("num_gpus")
        if gpus == 0:
            return LeftOut(NO_GPU)
        return TraceJob(
            id=f"philly-{row.line}",
            submit_s=pacific_s(row.wall("timestamp")),
            gpus=gpus,
            duration_s=row.number("duration", least=1e-3),
            tenant=row.text("cluster") or "default",
        )


@dataclass(frozen=True, slots=True)
class JsonJob:
    """One object of the job log and the line on which it starts."""

    line: int
    fields: Mapping[str, Any]

    def moment(self, source: Mapping[str, Any], column: str) -> float | None:
        """A wall-clock time in seconds, or None where the log has none."""
        value = source.get(column)
        if value in (None, "", "None", "NA"):
            return None
        try:
            return pacific_s(datetime.fromisoformat(value))
        except (TypeError, ValueError):
            raise BadRow(self.line, column, value, "is not a date and time") from None

    def attempts(self) -> list[Mapping[str, Any]]:
        """The scheduling attempts, in the order of the log."""
        found = self.fields.get("attempts") or []
        if not isinstance(found, list) or not all(isinstance(attempt, dict) for attempt in found):
            raise BadRow(self.line, "attempts", found, "is not a list of attempts")
        return found


class PhillyFormat(Format[JsonJob]):
    """Reads the original ``cluster_job_log`` in JSON.

    The owner's wish is the number of GPUs of the first attempt that lists any; the work is the time of all
    attempts that have both a start and an end, without the waiting between them.
    """

    name = "philly"
    title = "Philly cluster_job_log JSON"
    notes = (_PACIFIC, "a job's duration is the sum of its recorded attempts")

    def match(self, head: str) -> int:
        """A JSON list whose first object has attempts."""
        return 100 if head.lstrip().startswith("[") and '"attempts"' in head else 0

    def records(self, path: Path) -> Iterator[JsonJob]:
        """The objects of the list one by one, so that each knows its line."""
        with open_text(path) as file:
            yield from _Objects(file, path)

    def entry(self, record: JsonJob, _options: Options, /) -> Entry:
        """One job, if it was scheduled on GPUs and came to an end."""
        attempts = record.attempts()
        submit_s = record.moment(record.fields, "submitted_time")
        if not attempts:
            return LeftOut("jobs never scheduled")
        if submit_s is None:
            return LeftOut("jobs without a submission time")
        gpus = next((count for count in (_gpus(record, attempt) for attempt in attempts) if count), 0)
        if gpus == 0:
            return LeftOut("jobs without a GPU count")
        if _still_running(record, attempts[-1]):
            return LeftOut("jobs still running at the end of the log")
        duration_s = sum(_length_s(record, attempt) for attempt in attempts)
        if duration_s <= 0:
            return LeftOut("jobs without any attempt of known length")
        tenant = str(record.fields.get("vc") or "default")
        job_id = str(record.fields.get("jobid") or f"philly-{record.line}")
        return TraceJob(id=job_id, submit_s=submit_s, gpus=gpus, duration_s=duration_s, tenant=tenant)


def _gpus(record: JsonJob, attempt: Mapping[str, Any]) -> int:
    try:
        return sum(len(server["gpus"]) for server in attempt.get("detail") or ())
    except (TypeError, KeyError):
        raise BadRow(record.line, "detail", attempt.get("detail"), "lists no servers with gpus") from None


def _still_running(record: JsonJob, last: Mapping[str, Any]) -> bool:
    started = record.moment(last, "start_time") is not None
    return started and record.moment(last, "end_time") is None


def _length_s(record: JsonJob, attempt: Mapping[str, Any]) -> float:
    start, end = record.moment(attempt, "start_time"), record.moment(attempt, "end_time")
    if start is None or end is None:
        return 0.0
    # An end up to an hour before its start is the second pass of the hour that the clock change repeats.
    length = end - start if end >= start else end - start + 3600.0
    if length < 0:
        raise BadRow(record.line, "end_time", attempt.get("end_time"), "is before the attempt's start_time")
    return length


_CHUNK = 1 << 16
_LONGEST_JOB = 1 << 20
"""Characters of one object of the list; the longest of the published log has a few thousand."""


class _Objects:
    """The objects of a JSON list, read piece by piece: the whole log need not fit into memory."""

    def __init__(self, file: io.TextIOWrapper, path: Path) -> None:
        self._file, self._path = file, path
        self._text, self._line, self._ended = "", 1, False
        self._decoder = json.JSONDecoder()

    def __iter__(self) -> Iterator[JsonJob]:
        self._more()
        self._drop(self._text.find("[") + 1)
        while True:
            self._skip_separators()
            if self._text.startswith("]"):
                return
            fields = self._object()
            if not isinstance(fields, dict):
                raise self._wrong(f"a job must be an object, not {fields!r:.60}")
            yield JsonJob(self._line, fields)

    def _object(self) -> object:
        """The value at the beginning of the text, of which more is read until it is whole."""
        while True:
            try:
                fields, end = self._decoder.raw_decode(self._text)
            except json.JSONDecodeError as error:
                if self._ended or len(self._text) > _LONGEST_JOB:
                    self._line += error.lineno - 1
                    raise self._wrong(f"not valid JSON: {error.msg}") from None
                self._more()
                continue
            except ValueError:  # Python's limit on digits
                raise self._wrong("not valid JSON: a number has too many digits") from None
            except RecursionError:
                raise self._wrong("not valid JSON: nested too deeply") from None
            self._rest = end
            return fields

    def _skip_separators(self) -> None:
        self._drop(self._rest)
        self._rest = 0
        while not self._text.lstrip(" \t\r\n,") and not self._ended:
            self._drop(len(self._text))
            self._more()
        self._drop(len(self._text) - len(self._text.lstrip(" \t\r\n,")))

    _rest = 0
    """Characters of the object that was given last: its line is needed until then."""

    def _more(self) -> None:
        try:
            piece = self._file.read(max(_CHUNK, len(self._text)))
        except UNREADABLE as error:
            raise ElastaneError(f"{self._path} is not readable text: {error}") from None
        self._text, self._ended = self._text + piece, not piece

    def _drop(self, characters: int) -> None:
        self._line += self._text.count("\n", 0, characters)
        self._text = self._text[characters:]

    def _wrong(self, problem: str) -> ElastaneError:
        return ElastaneError(f"{self._path}, line {self._line}: {problem}")
