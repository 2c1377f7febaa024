"""Tells the engine what is wanted of jobs that have processes, as a complete state that may be told again."""

from __future__ import annotations

from pathlib import Path

from elastane.engines.contract import Ending, Engine, Launch, Package, Wanted
from elastane.engines.local.paths import Layout
from elastane.engines.nodes.package_places import (
    code_from_json,
    command_in_copy,
    directory_on_head,
    variables_in_copy,
)
from elastane.jobs.declared import declared_by
from elastane.jobs.kinds import Kind
from elastane.jobs.parts import Checkpoint
from elastane.kit.storage_urls import JOB
from elastane.service.control.active_job import LiveJob
from elastane.service.control.ledger import Ledger


class EngineDriver:
    """From the rows of jobs to the wishes of an engine."""

    def __init__(self, engine: Engine, ledger: Ledger, home: Path) -> None:
        self._engine, self._ledger, self._layout = engine, ledger, Layout(home)

    def ensure(self, job: LiveJob) -> None:
        """Tell the engine what is wanted of a job; nothing, if it has no processes."""
        if job.row.attempt and job.holding:
            self._engine.ensure(wanted(job, self._layout))

    def ensure_all(self) -> None:
        """Tell it of every active job."""
        for job in self._ledger.live.values():
            self.ensure(job)


def wanted(job: LiveJob, layout: Layout) -> Wanted:
    """What the latest attempt of a job shall be: its grant, or its end."""
    row = job.row
    if row.ending:
        ending = Ending.SUSPEND if row.ending == "suspend" else Ending.CANCEL
        return Wanted(_launch(job, layout), None, ending, row.reason, row.seen)
    return Wanted(_launch(job, layout), row.grant, seen=row.seen)


def _launch(job: LiveJob, layout: Layout) -> Launch:
    """The same object as long as it says the same: it is told again after every decision."""
    known = job.launch
    if known is None or (known.attempt, known.kind) != (job.attempt, job.row.kind):
        known = job.launch = _made(job, layout)
    return known


def _made(job: LiveJob, layout: Layout) -> Launch:
    row, spec = job.row, job.spec
    code = code_from_json(row.code_from, row.directory)
    command, directory, variables = tuple(spec.command), row.directory, spec.variables
    if isinstance(code, Package):
        directory = directory_on_head(layout.home, code)
        command = command_in_copy(code, layout.home, command)
        variables = variables_in_copy(code, layout.home, variables)
    return Launch(
        attempt=job.attempt,
        name=row.name,
        command=command,
        directory=directory,
        code=code,
        folder=layout.attempt(job.attempt),
        run=layout.run(row.id),
        kind=row.kind,
        guessed=spec.kind is Kind.AUTO,
        environment=variables,
        declared=declared_by(spec),
        python=spec.python.path if spec.python else "",
        most_workers=spec.max_workers,
        worker_slots=job.worker.gpus,
        worker_memory_gb=job.worker.memory_gb,
        # Unless its owner wants another, the training library finds an interval from what saving costs.
        checkpoint_s=spec.checkpoint.every if spec.checkpoint.every != Checkpoint().every else None,
        checkpoints=(spec.checkpoints or "").replace(JOB, row.id),
        tenant=row.tenant,
    )
