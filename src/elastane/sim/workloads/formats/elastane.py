"""Our own trace format: whatever a job of the simulator can have, one column each, seconds on one clock."""

from __future__ import annotations

from elastane.sim.workloads.formats.base import CsvFormat, Entry, Options
from elastane.sim.workloads.rows import Row
from elastane.sim.workloads.trace import TraceJob


class ElastaneFormat(CsvFormat):
    """``id,submit_s,gpus`` and, where a file has them, ``app,batch,duration_s`` and the owner's columns.

    The owner's columns (``class,kind,tenant,priority,weight,deadline_s``) are read as in every format with a header.
    Without ``duration_s`` the application's own work is done; without ``app`` one is chosen by GPU hours.
    """

    name = "elastane"
    title = "Elastane CSV"
    columns = ("id", "submit_s", "gpus")

    def job(self, row: Row, _options: Options, /) -> Entry:
        """Reads one job from one line of the trace."""
        if not row.text("id"):
            raise row.bad("id", "names no job")
        app = row.optional("app")
        sized, timed = row.optional("batch") is not None, row.optional("duration_s") is not None
        if app is None and not timed:
            raise row.bad("id", "has neither an app nor a duration_s, so nobody knows how much there is to do")
        return TraceJob(
            id=row.text("id"),
            submit_s=row.number("submit_s"),
            gpus=row.whole("gpus", least=1),
            app=app,
            batch=row.whole("batch", least=1) if sized else None,
            duration_s=row.number("duration_s", least=1e-3) if timed else None,
        )
