"""``WorkerRegistry`` knows every worker that a job ever had, and the last step of which any of them has told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from elastane.train.coordinator.worker_table import Phase, Worker


class WorkerRegistry:
    """The workers of one job by name, the dead included."""

    def __init__(self, workers: dict[str, Worker], born: int) -> None:
        """``born`` is how many workers were ever started; some of them may not be in ``workers`` any more."""
        self.workers = workers
        self.step = 0
        self._born = born

    def __getitem__(self, name: str) -> Worker:
        return self.workers[name]

    @property
    def alive(self) -> Sequence[Worker]:
        """Workers whose processes may still do something, oldest first."""
        return [worker for worker in self.workers.values() if worker.alive]

    def in_phase(self, *phases: Phase) -> Sequence[Worker]:
        """Workers that are in one of these phases, oldest first."""
        return [worker for worker in self.workers.values() if worker.phase in phases]

    @property
    def trained(self) -> Sequence[Worker]:
        """Workers that have trained, the dead included."""
        return [worker for worker in self.workers.values() if worker.entered or worker.done]

    def seen(self, name: str, now_s: float) -> Worker | None:
        """The worker that has given a sign of life, if it is one of this job's."""
        worker = self.workers.get(name)
        if worker is not None:
            worker.seen_s = now_s
        return worker

    def reference(self) -> Mapping[str, Any] | None:
        """The signature that newcomers must share; None while nobody has one."""
        known = (w.signature for w in self.alive if w.phase is not Phase.WARMING and w.signature)
        return next(known, None)

    def progressed(self, step: int) -> None:
        """Somebody has come to this step."""
        self.step = max(self.step, step)

    def add(self) -> Worker:
        """A new worker, under a name that nobody has had."""
        self._born += 1
        worker = Worker(f"w{self._born}")
        self.workers[worker.name] = worker
        return worker
