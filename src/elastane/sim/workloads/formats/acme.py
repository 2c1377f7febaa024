"""Shanghai AI Laboratory's ACME traces of 2023: clusters Seren and Kalos."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone
from typing import ClassVar

from elastane.sim.workloads.formats.base import NEVER_RAN, NO_GPU, CsvFormat, Entry, LeftOut, Options
from elastane.sim.workloads.rows import Row
from elastane.sim.workloads.trace import TraceJob

_CHINA = timezone(timedelta(hours=8))


class SerenFormat(CsvFormat):
    """``trace_seren.csv``: times at +08:00, ``duration`` is the time from start to end."""

    name = "acme-seren"
    title = "ACME Seren CSV"
    columns: ClassVar[tuple[str, ...]] = (
        "job_id",
        "user",
        "gpu_num",
        "type",
        "state",
        "submit_time",
        "start_time",
        "end_time",
        "duration",
        "queue",
    )
    zone: timezone = _CHINA

    def job(self, row: Row, _options: Options, /) -> Entry:
        """One line, if it is a GPU job that ran."""
        gpus = row.whole("gpu_num") if row.optional("gpu_num") else 0
        if gpus == 0:
            return LeftOut(NO_GPU)
        duration_s = self.duration_s(row)
        if duration_s <= 0:
            return LeftOut(NEVER_RAN)
        return TraceJob(
            id=row.text("job_id"),
            submit_s=row.moment("submit_time", self.zone).timestamp(),
            gpus=gpus,
            duration_s=duration_s,
            tenant=row.text("user") or "default",
        )

    def duration_s(self, row: Row) -> float:
        """Seconds of running; none where nothing is recorded."""
        return row.number("duration") if row.optional("duration") else 0.0


class KalosFormat(SerenFormat):
    """``trace_kalos.csv``: times at +00:00, and ``duration`` contrary to its description includes the queueing.

    The running time is therefore end − start, and duration − queue only where one of the two is missing.
    """

    name = "acme-kalos"
    title = "ACME Kalos CSV"
    columns = (*SerenFormat.columns, "fail_time", "stop_time")
    notes = ("Kalos counts queueing in duration; the time from start to end is used instead",)
    zone = UTC

    def duration_s(self, row: Row) -> float:
        """Seconds from start to end."""
        if row.optional("start_time") and row.optional("end_time"):
            started = row.moment("start_time", self.zone)
            ran_s = (row.moment("end_time", self.zone) - started).total_seconds()
            if ran_s < 0:
                raise row.bad("end_time", "is before the start_time")
            return ran_s
        waited_s = row.number("queue") if row.optional("queue") else 0.0
        return super().duration_s(row) - waited_s
