"""Reading a trace file of any known format into a ``Trace``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from elastane.errors import ElastaneError
from elastane.sim.workloads.formats import FORMATS, Format, Options
from elastane.sim.workloads.formats.base import Entry, LeftOut, NeedsOption
from elastane.sim.workloads.names import nearest
from elastane.sim.workloads.rows import BadRow
from elastane.sim.workloads.trace import Omission, Trace, TraceJob
from elastane.textfiles import read_text

_HEAD_CHARACTERS = 65536
_MOST_JOBS = 1_000_000
_YEAR_S = 366 * 86_400.0
_LONGEST_S, _LATEST_S = _YEAR_S, 100 * _YEAR_S
"""Of a job's work, and of a submission after the first: longer ones are other units, or a simulation without end."""
_MOST_GPUS = 1_000_000


def load(
    path: str | Path,
    format: str | None = None,
    skip_bad: bool = False,
    *,
    cluster: str | None = None,
    steps_per_s: float | None = None,
    time_unit_s: float | None = None,
    keep_steps: bool = False,
) -> Trace:
    """Read a trace; ``format`` None recognises it by content.  Gzip files are unpacked on the way.

    A bad row stops with an ``ElastaneError`` naming file, line, column and value; with ``skip_bad`` it is left
    out and counted.  Records that the format rightly leaves out (CPU jobs, jobs that never ran) are counted in
    both cases: ``Trace.skipped`` is the number of all records left out, ``Trace.notes`` says why.  ``keep_steps``
    lets a trace that counts steps pass without ``steps_per_s``, for a truth that knows job types.
    """
    path = Path(path)
    chosen = _format_named(format) if format else detect(path)
    options = Options(cluster=cluster, steps_per_s=steps_per_s, time_unit_s=time_unit_s, keep_steps=keep_steps)
    _check_options(chosen, options)
    return _Reading(path, chosen, options, skip_bad).trace()


def detect(path: str | Path) -> Format[Any]:
    """The format of a file, from its first lines."""
    head = read_text(Path(path), _HEAD_CHARACTERS)
    best = max(FORMATS, key=lambda known: known.match(head))
    if best.match(head) == 0:
        lines = head.lstrip().splitlines()
        begins = f"it begins {lines[0][:80]!r}" if lines else "it is empty"
        known = "; ".join(f"{form.name} ({form.title})" for form in FORMATS)
        raise ElastaneError(f"{path} is in no known trace format ({begins}); known formats: {known}")
    return best


def _format_named(name: str) -> Format[Any]:
    formats = {form.name: form for form in FORMATS}
    if name not in formats:
        raise ElastaneError(f"unknown trace format {name!r}{nearest(name, formats)}")
    return formats[name]


def _check_options(chosen: Format[Any], options: Options) -> None:
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    given = {name for name, value in values.items() if value is not None and value is not False}
    if "keep_steps" in given - chosen.options:
        raise ElastaneError(
            f"format {chosen.name} has no job types and steps, which a table of throughputs needs"
        )
    if wrong := sorted(given - chosen.options):
        accepted = ", ".join(sorted(chosen.options)) or "none"
        raise ElastaneError(f"format {chosen.name} has no option {wrong[0]} (it has: {accepted})")
    for value in (options.steps_per_s, options.time_unit_s):
        if value is not None and not 0 < value < float("inf"):
            raise ElastaneError(f"steps_per_s and time_unit_s must be above zero, not {value:g}")


class _Reading:
    """One pass over a file: jobs, what was left out, and the first bad row."""

    def __init__(self, path: Path, form: Format[Any], options: Options, skip_bad: bool) -> None:
        self.path, self.form, self.options, self.skip_bad = path, form, options, skip_bad
        self.jobs: list[TraceJob] = []
        self.left_out: Counter[str] = Counter()
        self.other_clusters: set[str] = set()
        self.bad, self.first_bad = 0, ""

    def trace(self) -> Trace:
        """Read everything, then put the jobs in order on a clock from zero."""
        for record in self.form.records(self.path):
            self._take(record)
        if not self.jobs:
            raise ElastaneError(f"{self.path} holds no usable job{self._why_empty()}")
        self._check_times()
        start_s = 0.0 if self.form.keeps_clock else min(job.submit_s for job in self.jobs)
        jobs, renamed = _distinct(_moved(job, -start_s) for job in self.jobs)
        jobs.sort(key=lambda job: job.submit_s)
        notes = (*self.form.notes, *self._counts(), *renamed)
        skipped = self.left_out.total() + self.bad
        part = f", {self.options.cluster}" if self.options.cluster else ""
        return Trace(tuple(jobs), f"{self.path.name} ({self.form.name}{part})", notes, skipped)

    def _take(self, record: object) -> None:
        try:
            entry = _sensible(self.form.entry(record, self.options))
        except NeedsOption as error:
            raise ElastaneError(f"{self.path}, {error}") from None
        except BadRow as error:
            self._leave_out(str(error))
            return
        if isinstance(entry, LeftOut):
            self.left_out[entry.reason] += 1
        elif isinstance(entry, TraceJob):
            if len(self.jobs) == _MOST_JOBS:
                raise ElastaneError(f"{self.path} has more than {_MOST_JOBS:,} jobs; give a part of it")
            self.jobs.append(entry)
        else:
            self.other_clusters.add(entry.cluster)

    def _leave_out(self, problem: str) -> None:
        if not self.skip_bad:
            raise ElastaneError(f"{self.path}, {problem} (--skip-bad leaves such rows out)") from None
        self.bad, self.first_bad = self.bad + 1, self.first_bad or problem

    def _check_times(self) -> None:
        """Leave out jobs that come a lifetime after the first one."""
        first_s = 0.0 if self.form.keeps_clock else min(job.submit_s for job in self.jobs)
        late = [job for job in self.jobs if not job.submit_s - first_s <= _LATEST_S]
        for job in late:
            self._leave_out(f"{job.label}: is submitted more than 100 years after the first")
        if late:
            self.jobs = [job for job in self.jobs if job.submit_s - first_s <= _LATEST_S]
            if not self.jobs:
                raise ElastaneError(f"{self.path} holds no usable job{self._why_empty()}")

    def _counts(self) -> tuple[str, ...]:
        notes: list[str] = [
            Omission(f"left out {count} {reason}") for reason, count in sorted(self.left_out.items())
        ]
        if self.bad:
            notes.append(f"skipped {self.bad} bad rows, the first: {self.first_bad}")
        return tuple(notes)

    def _why_empty(self) -> str:
        if self.options.cluster is not None and self.other_clusters:
            return f" of cluster {self.options.cluster!r}{nearest(self.options.cluster, self.other_clusters)}"
        return f": {'; '.join(self._counts())}" if self._counts() else ""


def _sensible(entry: Entry) -> Entry:
    """The entry itself; ``BadRow`` for a job that no cluster could ever finish."""
    if isinstance(entry, TraceJob):
        if entry.duration_s is not None and not entry.duration_s <= _LONGEST_S:
            raise BadRow(entry.label, "duration", entry.duration_s, "is longer than a year (in seconds)")
        if entry.gpus > _MOST_GPUS:
            raise BadRow(entry.label, "gpus", entry.gpus, f"is above {_MOST_GPUS:,}")
    return entry


def _moved(job: TraceJob, by_s: float) -> TraceJob:
    # Spelled out: dataclasses.replace takes several times as long, and traces have 100,000 jobs.
    deadline_s = None if job.deadline_s is None else job.deadline_s + by_s
    return TraceJob(
        job.id,
        job.submit_s + by_s,
        job.gpus,
        job.app,
        job.batch,
        job.duration_s,
        job.tenant,
        deadline_s,
        job.weight,
        job.priority,
        job.skew,
        job.data_zone,
        job.data_gb,
        job.klass,
        job.kind,
        job.job_type,
        job.steps,
        job.slo,
    )


def _distinct(jobs: Iterable[TraceJob]) -> tuple[list[TraceJob], tuple[str, ...]]:
    """The jobs with a number behind every repeated name, because the simulator tells jobs apart by name."""
    seen: Counter[str] = Counter()
    result: list[TraceJob] = []
    for job in jobs:
        seen[job.id] += 1
        result.append(job if seen[job.id] == 1 else replace(job, id=f"{job.id}#{seen[job.id]}"))
    repeated = len(result) - len(seen)
    return result, (f"numbered {repeated} repeated job names",) if repeated else ()
