"""Tiresias's job CSV and its descendant with deadlines, Chronus."""

from __future__ import annotations

from typing import ClassVar

from elastane.sim.workloads.formats.base import NO_GPU, CsvFormat, Entry, LeftOut, Options, seconds_from_steps
from elastane.sim.workloads.rows import Row
from elastane.sim.workloads.trace import TraceJob

# Share of the largest tensor, from the tensor tables published with Tiresias's simulator: VGG-16 392 of 527 MB,
# ResNet-50 9 of 81 MB.  The other families are put beside the one they resemble.
_SKEWS = {"vgg": 0.74, "alexnet": 0.74, "resnet": 0.11, "inception": 0.11}


def skew_of(model_name: str | None) -> float | None:
    """Share of the largest tensor in a model of that name; None for families that are not known."""
    name = (model_name or "").lower()
    return next((skew for family, skew in _SKEWS.items() if name.startswith(family)), None)


class TiresiasFormat(CsvFormat):
    """Reads ``job_id,num_gpu,submit_time,iterations,model_name,duration,interval``, times in seconds.

    ``interval`` repeats the gap between submissions and is not needed.  Where ``duration`` is missing the
    iterations are divided by option ``steps_per_s``.
    """

    name = "tiresias"
    title = "Tiresias job CSV"
    columns: ClassVar[tuple[str, ...]] = ("job_id", "num_gpu", "submit_time", "iterations", "model_name")
    options = frozenset({"steps_per_s"})
    unit_s: float = 1.0

    def job(self, row: Row, options: Options, /) -> Entry:
        """Reads one job from one line of the trace."""
        gpus = row.whole("num_gpu")
        if gpus == 0:
            return LeftOut(NO_GPU)
        unit_s = options.time_unit_s or self.unit_s
        submit_s = row.number("submit_time") * unit_s
        known = row.optional("duration") is not None
        return TraceJob(
            id=row.text("job_id"),
            submit_s=submit_s,
            gpus=gpus,
            duration_s=row.number("duration", least=1e-3) * unit_s
            if known
            else seconds_from_steps(row, "iterations", options),
            tenant=row.optional("user") or "default",
            deadline_s=self.deadline_s(row, submit_s, unit_s),
            skew=skew_of(row.optional("model_name")),
        )

    def deadline_s(self, _row: Row, _submit_s: float, _unit_s: float, /) -> float | None:
        """No deadline: Tiresias's traces have none."""
        return None


class ChronusFormat(TiresiasFormat):
    """Chronus's SLO trace: Tiresias's columns with user, expectations and job type, in minutes.

    ``expect_time_list`` counts from the submission; several entries, joined by ``-``, are a soft SLO whose
    value falls with each.  The first is the deadline, as in Chronus's own measure of satisfied jobs.
    Best-effort jobs (``best_effort`` 1 or ``job_type`` best) have none.  The unit follows from the
    figures: 20,151 units are fourteen days and the longest job has just under three, so it is the minute;
    option ``time_unit_s`` overrides.
    """

    name = "chronus"
    title = "Chronus SLO CSV"
    columns = (*TiresiasFormat.columns, "duration", "expect_time_list", "best_effort", "job_type")
    options = frozenset({"steps_per_s", "time_unit_s"})
    notes = ("the deadline is the first expected time",)
    unit_s = 60.0

    def deadline_s(self, row: Row, submit_s: float, unit_s: float, /) -> float | None:
        """Submission plus the first expectation."""
        if row.text("best_effort") == "1" or row.text("job_type").startswith("best"):
            return None
        first = row.text("expect_time_list").split("-")[0]
        if not first.replace(".", "", 1).isdigit():
            raise row.bad("expect_time_list", "is not a list of times joined by -")
        return submit_s + float(first) * unit_s
