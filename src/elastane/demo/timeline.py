"""Extracts each job's number of slots over time from the event log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from elastane.service.messages import EventRecord

_STATE = "state"


@dataclass(frozen=True, slots=True)
class Change:
    """The workers of a job, by node, from a moment (Unix seconds) on."""

    at_s: float
    nodes: tuple[tuple[str, int], ...]

    @property
    def workers(self) -> int:
        """The number of workers on all nodes together."""
        return sum(count for _, count in self.nodes)


def changes_of(records: Iterable[EventRecord]) -> tuple[Change, ...]:
    """Returns the changes of one job, oldest first; the first is its submission, with no workers."""
    changes: list[Change] = []
    for record in records:
        if record.kind != _STATE:
            continue
        nodes = tuple(sorted((str(node), int(count)) for node, count in record.body["workers"].items()))
        if not changes or changes[-1].nodes != nodes:
            changes.append(Change(record.at_s, nodes))
    return tuple(changes)
