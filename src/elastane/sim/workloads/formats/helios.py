"""SenseTime's Helios traces of 2020 (Venus, Earth, Saturn, Uranus)."""

from __future__ import annotations

from elastane.sim.workloads.formats.base import NEVER_RAN, NO_GPU, CsvFormat, Entry, LeftOut, Options
from elastane.sim.workloads.rows import Row
from elastane.sim.workloads.trace import TraceJob


class HeliosFormat(CsvFormat):
    """Reads ``cluster_log.csv`` of one cluster.

    About half of the rows are CPU jobs; the single SUSPENDED row (Uranus) is ignored as its authors do.  Wall
    clocks are China's without a zone, which has no clock change, so their differences are right as they stand.
    """

    name = "helios"
    title = "Helios cluster_log.csv"
    columns = ("job_id", "user", "vc", "gpu_num", "state", "submit_time", "duration", "queue")

    def job(self, row: Row, _options: Options, /) -> Entry:
        """One line, if it is a GPU job that ran."""
        gpus = row.whole("gpu_num")
        if gpus == 0:
            return LeftOut(NO_GPU)
        if row.text("state") == "SUSPENDED":
            return LeftOut("suspended jobs")
        duration_s = row.number("duration")
        if duration_s == 0:
            return LeftOut(NEVER_RAN)
        return TraceJob(
            id=row.text("job_id"),
            submit_s=row.moment("submit_time").timestamp(),
            gpus=gpus,
            duration_s=duration_s,
            tenant=row.text("vc") or "default",
        )
