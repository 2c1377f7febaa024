"""The tab-separated traces of Gavel, and Shockwave's extension of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from elastane.sim.workloads.formats.base import NO_GPU, Entry, Format, LeftOut, Options, seconds_from_steps
from elastane.sim.workloads.rows import BadRow, Row, read_cells
from elastane.sim.workloads.trace import TraceJob

_MSR = ("type", "command", "steps_flag", "needs_data", "steps", "arrival", "gpus")
_TESTBED = (
    "type",
    "command",
    "directory",
    "steps_flag",
    "needs_data",
    "steps",
    "gpus",
    "weight",
    "slo",
    "arrival",
)
_SHOCKWAVE = (*_TESTBED[:7], "mode", "weight", "slo", "duration", "arrival")

# Only what is the same network on the same data in the catalog; the rest is left to the simulator.
_APPS = {"ResNet-18": "cifar10", "ResNet-50": "imagenet"}


class GavelFormat(Format[Row]):
    """Seven columns (``msr``) or ten (the testbed's).

    There are steps only, so ``steps_per_s`` or a table of throughputs is needed.  An SLO is a multiple of the job's
    duration, counted from its arrival; -1 stands for none.  Batch sizes are left out, because they are below what the
    catalog's applications allow.
    """

    name = "gavel"
    title = "Gavel trace, 7 or 10 tab-separated columns"
    options = frozenset({"steps_per_s", "keep_steps"})
    layouts: ClassVar[tuple[tuple[str, ...], ...]] = (_MSR, _TESTBED)

    def match(self, head: str) -> int:
        """The number of tab-separated columns of the first line, with numbers where they belong."""
        lines = head.lstrip().splitlines()
        cells = lines[0].split("\t") if lines else []
        for names in self.layouts:
            if len(cells) == len(names):
                return 50 * all(_is_number(cells[names.index(name)]) for name in ("steps", "gpus", "arrival"))
        return 0

    def records(self, path: Path) -> Iterator[Row]:
        """Every line under the layout that has its number of columns."""
        layouts = {len(names): {name: place for place, name in enumerate(names)} for names in self.layouts}
        for line, values in read_cells(path, "\t"):
            yield Row(line, layouts.get(len(values), {}), values)

    def entry(self, record: Row, options: Options, /) -> Entry:
        """Reads one job from one line of the trace."""
        if not record.columns:
            known = " or ".join(str(len(names)) for names in self.layouts)
            reason = f"has {len(record.values)} tab-separated columns, not {known}"
            raise BadRow(record.line, "(all)", "\t".join(record.values)[:80], reason)
        gpus = record.whole("gpus")
        if gpus == 0:
            return LeftOut(NO_GPU)
        slo = record.number("slo", least=-1.0) if "slo" in record.columns else -1.0
        if options.keep_steps:
            return self._in_steps(record, gpus, slo)
        submit_s, duration_s = record.number("arrival"), self._duration_s(record, options)
        return TraceJob(
            id=f"{self.name}-{record.line}",
            submit_s=submit_s,
            gpus=gpus,
            app=_APPS.get(record.text("type").split(" (")[0]),
            duration_s=duration_s,
            deadline_s=submit_s + slo * duration_s if slo > 0 else None,
            weight=self._weight(record),
        )

    def _in_steps(self, record: Row, gpus: int, slo: float) -> TraceJob:
        """The job with its type and steps, whatever time they take."""
        return TraceJob(
            id=f"{self.name}-{record.line}",
            submit_s=record.number("arrival"),
            gpus=gpus,
            weight=self._weight(record),
            job_type=record.text("type"),
            steps=record.number("steps", least=1),
            slo=slo if slo > 0 else None,
        )

    def _weight(self, record: Row) -> float:
        return record.number("weight", least=1e-9) if "weight" in record.columns else 1.0

    def _duration_s(self, row: Row, options: Options) -> float:
        if row.optional("duration"):
            return row.number("duration", least=1e-3)
        return seconds_from_steps(row, "steps", options)


class ShockwaveFormat(GavelFormat):
    """Twelve columns: Gavel's with the batch mode (static, accordion, gns) and the duration."""

    name = "shockwave"
    title = "Shockwave trace, 12 tab-separated columns"
    options = frozenset()
    layouts = (_SHOCKWAVE,)
    notes = (
        "the batch mode (static, accordion, gns) is not used: the simulator's own noise model stands for it",
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
