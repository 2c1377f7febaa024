"""``JobEnd`` decides when a job is over, and how: asked to stop, failed, or everybody has come to the end."""

from __future__ import annotations

from elastane.train.coordinator.actions import Finish
from elastane.train.coordinator.messages import Over, StopTraining
from elastane.train.coordinator.outbox import Outbox
from elastane.train.coordinator.plan_entries import JobEnded, WorkerGone
from elastane.train.coordinator.worker_registry import WorkerRegistry
from elastane.train.coordinator.worker_table import Phase
from elastane.train.exit_cause import FINISHED, ExitCause


class JobEnd:
    """The end of one job: its outcome once it has one, and why it was asked to stop."""

    def __init__(self, registry: WorkerRegistry, outbox: Outbox, outcome: Finish | None) -> None:
        self.outcome = outcome
        self._registry = registry
        self._out = outbox
        self._stopping: ExitCause | None = None
        self._let_gone: set[str] = set()

    @property
    def stopping(self) -> bool:
        """Whether somebody has asked for the end, come or not."""
        return self._stopping is not None

    def stop(self, cause: ExitCause) -> None:
        """Members leave at their next step boundary, newcomers at once: they have nothing to save."""
        self._stopping = cause
        for worker in self._registry.alive:
            if worker.phase in (Phase.WARMING, Phase.READY):
                worker.phase = Phase.GONE
                self._out.record(WorkerGone(worker.name))
                self._out.kill(worker.name, str(cause))
            else:
                self._out.send(worker.name, StopTraining(str(cause)))

    def fail(self, cause: ExitCause) -> None:
        """End the job with this cause, unless it has ended before."""
        if self.outcome is None:
            self._finish(cause)

    def reached(self, *, recovers: bool) -> bool:
        """Whether no change of members is to follow; ``recovers``: a generation has broken, the next has not begun."""
        self._let_go()
        trained = self._registry.trained
        if self._stopping and not any(w.alive for w in trained):
            self._finish(self._stopping)
        elif any(w.done for w in trained) and not any(w.alive for w in trained):
            self._finish(FINISHED)
        for worker in self._registry.alive if any(w.done for w in trained) else ():
            if not worker.entered and not worker.done:
                worker.phase = Phase.GONE
                self._out.kill(worker.name, "training has ended")
        return self.outcome is not None or (any(w.done for w in trained) and not recovers)

    def _finish(self, cause: ExitCause) -> None:
        self.outcome = end = Finish(cause)
        self._out.record(JobEnded.by(cause))
        for worker in self._registry.alive:
            self._out.send(worker.name, StopTraining(end.cause, end.outcome == "failed"))
        self._out.add(end)

    def _let_go(self) -> None:
        """Nobody needs anybody's part of the last step any more."""
        members = self._registry.in_phase(Phase.MEMBER)
        if members and all(w.done for w in members):
            for worker in members:
                if worker.name not in self._let_gone:
                    self._let_gone.add(worker.name)
                    self._out.send(worker.name, Over())
