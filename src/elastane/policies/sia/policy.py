"""Sia (SOSP'23): every round, one integer program chooses a configuration (type, GPUs, nodes) for each job.

Jobs are profiled on one GPU of each type, start small, at most double from round to round, and choose their own batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from elastane.policies.allocation.eviction import Configuration, place
from elastane.policies.contract import Needs, Policy
from elastane.policies.options import OptionError
from elastane.policies.plan import Exact, Plan
from elastane.policies.reasons import Gpus, said
from elastane.policies.sia.configurations import Machines
from elastane.policies.sia.goodputs import Row, goodputs, normalised
from elastane.policies.sia.program import Candidate, choose
from elastane.policies.sia.rows import row_of
from elastane.policies.view import Info, JobView, View

_NO_CONFIGURATION = "no accelerator type has a configuration of its size"
_ABORTED = "was stopped at this moment, and is considered again in the next round"


@dataclass(frozen=True)
class Sia(Policy):
    """Heterogeneity-aware, goodput-optimised scheduling.

    Attributes:
        p: Exponent of normalised goodputs; below 0 it favours jobs that have little.
        penalty: λ, what a job without GPUs costs, where 1 is a job in its slowest configuration.
        gap: Relative gap at which the solver stops.
    """

    p: float = -0.5
    penalty: float = 1.1
    gap: float = 1e-6

    name: ClassVar[str] = "sia"
    title: ClassVar[str] = "Sia"
    paper: ClassVar[str] = "Jayaram Subramanya et al., SOSP'23"
    needs: ClassVar[Needs] = Needs(
        info=Info.SPEED, period_s=60.0, on_arrival=False, on_finish=False, rebatch=True, profile=True
    )
    elastic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (self.p != 0.0 and abs(self.p) <= 10.0):
            raise OptionError(f"sia: p is a number other than 0 between -10 and 10, not {self.p}")
        if not 0.0 <= self.penalty <= 1e6 or not 0.0 <= self.gap < 1.0:
            raise OptionError("sia: penalty is from 0 to 1e6, gap a fraction from 0 and below 1")

    def decide(self, view: View) -> Plan:
        """Solves the program of this round and places its answer."""
        machines = Machines.of(view)
        aborted = _aborted(view)
        explain: dict[str, str] = {}
        rows: list[Row] = []
        for job in sorted(view.jobs.values(), key=lambda job: (job.submit_s, job.id)):
            row = row_of(job, view, machines)
            if job.id in aborted:
                explain[job.id] = _ABORTED
            elif row is None:
                continue  # it must keep what it holds on a node that takes no other work
            elif row.choices:
                rows.append(row)
            else:
                explain[job.id] = _NO_CONFIGURATION
        chosen = self._choose(rows, machines, view)
        explain.update((row.job.id, _left_out(row.job)) for row in rows if row.job.id not in chosen)
        fixed = {row.job.id for row in rows if row.fixed}
        grants = place(view, chosen, fixed, explain)
        stopped = sorted(job.id for job in view.jobs.values() if job.grant and job.id not in grants)
        return Plan(Exact(grants), explain=explain, memory={"at_s": view.now_s, "stopped": stopped})

    def _choose(self, rows: list[Row], machines: Machines, view: View) -> dict[str, Configuration]:
        """Returns the configuration that the program gives to each job; jobs that are left out are not in it."""
        tables = zip(rows, goodputs(rows), strict=True)
        candidates = [
            Candidate(row.choices, normalised(row, table, view.now_s), row.present, row.fixed)
            for row, table in tables
        ]
        places = choose(candidates, machines.gpus, self.p, self.penalty, self.gap)
        return {row.job.id: row.choices[at] for row, at in zip(rows, places, strict=True) if at is not None}


def _aborted(view: View) -> frozenset[str]:
    """Returns the jobs that the last plan stopped, if it was made at this very instant: it is not undone at once."""
    memory: Any = view.memory
    if not isinstance(memory, Mapping) or memory.get("at_s") != view.now_s:
        return frozenset()
    waiting = (job for job in memory["stopped"] if job in view.jobs and view.jobs[job].grant is None)
    return frozenset(waiting)


def _left_out(job: JobView) -> str:
    return said(
        "other jobs gain more from the ",
        Gpus(),
        f" than it would from {max(job.request.min_workers, 1)} of any type",
    )
