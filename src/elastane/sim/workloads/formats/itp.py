"""Microsoft's ITP traces of 2021, published with ElasticFlow."""

from __future__ import annotations

from elastane.sim.workloads.formats.base import NO_GPU, CsvFormat, Entry, LeftOut, NotChosen, Options
from elastane.sim.workloads.rows import Row
from elastane.sim.workloads.trace import TraceJob


class ItpFormat(CsvFormat):
    """``job_id,submission_time,duration,num_gpu`` in seconds, with an optional ``cluster`` column.

    Clusters in one file are independent of each other; option
    ``cluster=NAME`` takes one of them, otherwise each is a tenant.
    """

    name = "itp"
    title = "Microsoft ITP CSV (ElasticFlow)"
    columns = ("job_id", "submission_time", "duration", "num_gpu")
    options = frozenset({"cluster"})
    notes = ("the publishers removed jobs shorter than 600 s",)

    def job(self, row: Row, options: Options, /) -> Entry:
        """One line of the wanted cluster."""
        cluster = row.optional("cluster")
        if options.cluster is not None and cluster != options.cluster:
            return NotChosen(cluster or "(unnamed)")
        gpus = row.whole("num_gpu")
        if gpus == 0:
            return LeftOut(NO_GPU)
        return TraceJob(
            id=row.text("job_id"),
            submit_s=row.number("submission_time"),
            gpus=gpus,
            duration_s=row.number("duration", least=1e-3),
            tenant=cluster or "default",
        )
