"""Describes a job's membership for clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from elastane.train.coordinator.contract import Decider
from elastane.train.coordinator.messages import Status, WorkerStatus
from elastane.train.coordinator.worker_table import Worker


def status_of(coordinator: Decider, pids: Mapping[str, int], node_of: Callable[[str], str]) -> Status:
    """Generation, members, step and every living worker."""

    def worker_status(worker: Worker) -> WorkerStatus:
        node, beat = node_of(worker.name), worker.beat
        return WorkerStatus(worker.phase.value, pids.get(worker.name), node, beat.step, beat.doing.value)

    plan = coordinator.current
    return Status(
        generation=plan.generation if plan else 0,
        members=plan.members if plan else (),
        target=coordinator.target,
        step=coordinator.step,
        workers={worker.name: worker_status(worker) for worker in coordinator.workers.values() if worker.alive},
    )
