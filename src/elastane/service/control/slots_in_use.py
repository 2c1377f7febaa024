"""Counts who may still be using which slots and cores, so that a place is given away only when it is empty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from elastane.engines.contract import places_of
from elastane.service.control.active_job import LiveJob
from elastane.service.control.state_after_end import overlap


class SlotsInUse:
    """Slots and cores by node and job, kept up to date job by job: adding all up for each change would be quadratic."""

    def __init__(self, jobs: Iterable[LiveJob]) -> None:
        self._of: dict[str, Mapping[str, int]] = {}
        self._all: Counter[str] = Counter()
        self._cores: dict[str, dict[str, float]] = {}
        for job in jobs:
            self.note(job)

    def note(self, job: LiveJob) -> None:
        """Count a job as it is now."""
        for node, slots in self._of.pop(job.id, {}).items():
            self._all[node] -= slots
            self._cores.get(node, {}).pop(job.id, None)
        if not job.places and job.row.grant is None:
            return
        held = overlap(job.places, places_of(job.row.grant))
        self._of[job.id] = {node: job.slots(count) for node, count in held.items()}
        self._all.update(self._of[job.id])
        for node, count in held.items() if job.worker.cpus else ():
            self._cores.setdefault(node, {})[job.id] = count * job.worker.cpus

    def by_others(self, job: LiveJob, node: str) -> int:
        """Slots of a node that anybody but this job may still be using."""
        return self._all[node] - self._of.get(job.id, {}).get(node, 0)

    def cores_by_others(self, job: LiveJob, node: str) -> float:
        """Cores of a node that others have asked for and may still be using."""
        return sum(cores for other, cores in self._cores.get(node, {}).items() if other != job.id)

    def by_node(self) -> Mapping[str, int]:
        """Slots of each node that anybody may still be using."""
        return self._all
