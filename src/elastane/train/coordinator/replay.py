"""Reads back from a plan log what a coordinator knew; a log may hold several runs, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from elastane.train.coordinator.actions import Finish
from elastane.train.coordinator.membership_plan import Plan
from elastane.train.coordinator.plan_log import finish_of
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
    current: Plan | None = None
    outcome: Finish | None = None
    workers: dict[str, Worker] = field(default_factory=dict)


def known_from(entries: Iterable[Mapping[str, Any]]) -> Known:
    """Replay a log from its beginning."""
    known = Known()
    for entry in entries:
        _take_in(known, entry)
    return known


def _take_in(known: Known, entry: Mapping[str, Any]) -> None:
    match entry["type"]:
        case "target":
            known.target = int(entry["workers"])
        case "spawn":
            if known.outcome is not None:  # that was the end of an earlier run with this log
                known.outcome, known.current = None, None
                known.workers.clear()
            known.born += 1
            known.workers[entry["worker"]] = Worker(entry["worker"])
        case "gone":
            known.workers.pop(entry["worker"], None)
        case "done":
            if entry["worker"] in known.workers:
                known.workers[entry["worker"]].done = True
        case "plan":
            known.current = Plan.from_json(entry["plan"])
            known.published = known.current.generation
        case "stored":
            known.stored = int(entry["generation"])
        case "limit":
            known.most = int(entry["samples"])
        case "finish":
            known.outcome = finish_of(entry)


def counted(entries: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """Workers that were ever started, and the latest generation of this or a lost log."""
    born = published = 0
    for entry in entries:
        if entry["type"] == "spawn":
            born += 1
        elif entry["type"] == "plan":
            published = int(entry["plan"]["generation"])
        elif entry["type"] == "stored":
            published = max(published, int(entry["generation"]))
    return born, published


def fitted(entries: Iterable[Mapping[str, Any]]) -> int:
    """Samples that fitted into memory after more did not; 0: no limit was met."""
    found = [int(entry["samples"]) for entry in entries if entry["type"] == "limit"]
    return found[-1] if found else 0
