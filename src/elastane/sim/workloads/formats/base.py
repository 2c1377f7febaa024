"""A trace format recognises its files, splits them into records, and says what job a record means."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from elastane.errors import ElastaneError
from elastane.sim.workloads.owner_columns import with_owner_columns
from elastane.sim.workloads.rows import BadRow, Row, read_cells
from elastane.sim.workloads.trace import TraceJob

R = TypeVar("R")

NO_GPU = "jobs without GPUs"
NEVER_RAN = "jobs that never ran"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A good record that is no job for a GPU scheduler, and why (a plural, for counting)."""

    reason: str


@dataclass(frozen=True)
class Options:
    """What a reader may be told about a trace; every format names the ones it understands.

    ``cluster`` keeps one cluster of several; ``steps_per_s`` turns steps into seconds where a trace has no
    durations; ``time_unit_s`` is the length of the trace's unit of time; ``keep_steps`` leaves steps as they are.
    """

    cluster: str | None = None
    steps_per_s: float | None = None
    time_unit_s: float | None = None
    keep_steps: bool = False


@dataclass(frozen=True, slots=True)
class NotChosen:
    """A record of another cluster than the one asked for."""

    cluster: str


class NeedsOption(Exception):
    """The trace cannot be read without something that only its reader can know."""


Entry = TraceJob | LeftOut | NotChosen


class Format(ABC, Generic[R]):
    """One published trace format.  Submission times may start anywhere; ``load`` moves them to zero."""

    name: ClassVar[str]
    title: ClassVar[str]
    options: ClassVar[frozenset[str]] = frozenset()
    notes: ClassVar[tuple[str, ...]] = ()
    keeps_clock: ClassVar[bool] = False

    @abstractmethod
    def match(self, head: str) -> int:
        """How surely the beginning of a file is of this format: 0 not at all, the more the better."""

    @abstractmethod
    def records(self, path: Path) -> Iterator[R]:
        """The file's records in order; raises only what makes the whole file unreadable."""

    @abstractmethod
    def entry(self, record: R, options: Options, /) -> Entry:
        """What one record means; raises ``BadRow``."""


class CsvFormat(Format[Row]):
    """A comma-separated format with a header line.

    Besides its own columns those of ``owner_columns`` are read where a file has them; all others are ignored.
    """

    columns: ClassVar[tuple[str, ...]]

    def match(self, head: str) -> int:
        """All of the format's columns must be in the header; more known columns make a better match."""
        lines = head.lstrip().splitlines()
        header = {name.strip().strip('"') for name in lines[0].split(",")} if lines else set()
        return len(self.columns) if header.issuperset(self.columns) else 0

    def records(self, path: Path) -> Iterator[Row]:
        """Every line under the header."""
        cells = read_cells(path, ",")
        _, header = next(cells, (0, []))
        places = {name.strip(): place for place, name in enumerate(header)}
        if missing := [name for name in self.columns if name not in places]:
            raise ElastaneError(
                f"{path} has no column {', '.join(missing)}, which format {self.name} needs; "
                f"its first line is {','.join(header)[:200]!r}"
            )
        if twice := [name.strip() for place, name in enumerate(header) if places[name.strip()] != place]:
            raise ElastaneError(f"{path}: its first line names column {twice[0]!r:.80} twice")
        return (Row(line, places, values) for line, values in cells)

    def entry(self, record: Row, options: Options, /) -> Entry:
        """Checks the number of cells, then reads the job and what its owner asks for."""
        found, expected = len(record.values), len(record.columns)
        if found != expected:
            text = ",".join(record.values)[:80]
            raise BadRow(record.line, "(all)", text, f"has {found} columns where the header has {expected}")
        job = self.job(record, options)
        return with_owner_columns(job, record) if isinstance(job, TraceJob) else job

    @abstractmethod
    def job(self, row: Row, options: Options, /) -> Entry:
        """What one well-formed line means."""


def seconds_from_steps(row: Row, column: str, options: Options) -> float:
    """Duration of a job of which only the steps are known."""
    if options.steps_per_s is None:
        raise NeedsOption(
            f"line {row.line}, column {column}: the trace counts training steps and gives no duration; "
            "say how fast a job trains on the GPUs it asks for with steps_per_s=NUMBER"
        )
    return row.number(column, least=1) / options.steps_per_s
