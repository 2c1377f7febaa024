"""Reads back from a plan log what a coordinator knew; a log may hold several runs, one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from elastane.train.coordinator.actions import Finish
from elastane.train.coordinator.membership_plan import Plan
from elastane.train.coordinator.plan_entries import (
    Entry,
    GenerationsStored,
    JobEnded,
    LoopsCounted,
    MemoryLimited,
    PlanMade,
    TargetSet,
    WorkerDone,
    WorkerGone,
    WorkerSpawned,
)
from elastane.train.coordinator.worker_table import Worker


@dataclass(slots=True)
class Known:
    """What a log says."""

    target: int | None = None
    born: int = 0
    """Workers that were ever started: names are never used twice."""
    published: int = 0
    """The latest generation."""
    stored: int = 0
    """Generations up to this one belong to runs whose log was lost."""
    most: int = 0
    """Samples that fitted into memory after more did not (``Plan.most``)."""
    counts: bool = False
    """Whether the script limits its loops by a counter of its own, as this run has found."""
    current: Plan | None = None
    outcome: Finish | None = None
    workers: dict[str, Worker] = field(default_factory=dict)

    def take_in(self, plan: Plan) -> None:
        """Take up a plan that was made; who has not been in one before joins with it."""
        self.current, self.published = plan, plan.generation
        for worker in filter(None, map(self.workers.get, plan.members)):
            worker.joined = worker.joined or plan.generation


def known_from(entries: Iterable[Entry]) -> Known:
    """Replay a log from its beginning."""
    known = Known()
    for entry in entries:
        _take_in(known, entry)
    return known


def _take_in(known: Known, entry: Entry) -> None:
    match entry:
        case TargetSet(workers):
            known.target = workers
        case WorkerSpawned(worker):
            if known.outcome is not None:  # that was the end of an earlier run with this log
                known.outcome, known.current, known.counts = None, None, False
                known.workers.clear()
            known.born += 1
            known.workers[worker] = Worker(worker)
        case WorkerGone(worker):
            known.workers.pop(worker, None)
        case WorkerDone(worker):
            if worker in known.workers:
                known.workers[worker].done = True
        case PlanMade(plan):
            known.take_in(plan)
        case GenerationsStored(generation):
            known.stored = generation
        case MemoryLimited(samples):
            known.most = samples
        case LoopsCounted():
            known.counts = True
        case JobEnded():
            known.outcome = Finish(entry.exit_cause)


def counted(entries: Iterable[Entry]) -> tuple[int, int]:
    """Workers that were ever started, and the latest generation of this or a lost log."""
    born = published = 0
    for entry in entries:
        match entry:
            case WorkerSpawned():
                born += 1
            case PlanMade(plan):
                published = plan.generation
            case GenerationsStored(generation):
                published = max(published, generation)
    return born, published


def fitted(entries: Iterable[Entry]) -> int:
    """Samples that fitted into memory after more did not; 0: no limit was met."""
    found = [entry.samples for entry in entries if isinstance(entry, MemoryLimited)]
    return found[-1] if found else 0
