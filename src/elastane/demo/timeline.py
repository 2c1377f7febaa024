"""Who had how many slots when, from the event log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from elastane.service.messages import EventRecord

_STATE = "state"


@dataclass(frozen=True, slots=True)
class Change:
    """From this moment (Unix seconds) on so many workers, by node."""

    at_s: float
    nodes: tuple[tuple[str, int], ...]

    @property
    def workers(self) -> int:
        """On all nodes together."""
        return sum(count for _, count in self.nodes)


def changes_of(records: Iterable[EventRecord]) -> tuple[Change, ...]:
    """The changes of one job, oldest first; the first is its submission, when it has none."""
    changes: list[Change] = []
    for record in records:
        if record.kind != _STATE:
            continue
        nodes = tuple(sorted((str(node), int(count)) for node, count in record.body["workers"].items()))
        if not changes or changes[-1].nodes != nodes:
            changes.append(Change(record.at_s, nodes))
    return tuple(changes)
