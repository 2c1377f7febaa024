"""The workload files of Pollux and Sia."""

from __future__ import annotations

from elastane.sim.workloads.formats.base import CsvFormat, Entry, Options
from elastane.sim.workloads.rows import Row
from elastane.sim.workloads.trace import TraceJob


class PolluxFormat(CsvFormat):
    """``name,time,application,num_replicas,batch_size``: no durations, the application's own work is done.

    The clock is the authors' (seconds since the start of the eight hours), so it is kept as it is.
    """

    name = "pollux"
    title = "Pollux and Sia workload CSV"
    columns = ("name", "time", "application", "num_replicas", "batch_size")
    keeps_clock = True

    def job(self, row: Row, _options: Options, /) -> Entry:
        """One line; an empty size or batch lets the simulator choose."""
        app = row.text("application")
        if not app:
            raise row.bad("application", "names no application")
        sized = row.optional("batch_size") is not None
        return TraceJob(
            id=row.text("name"),
            submit_s=row.number("time"),
            gpus=row.whole("num_replicas", least=1) if row.optional("num_replicas") else 1,
            app=app,
            batch=row.whole("batch_size", least=1) if sized else None,
        )
