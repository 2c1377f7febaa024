"""Collects what is kept of a demo when its cluster is gone: figures, lines, and the data of the charts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from elastane.client import Client
from elastane.demo.narrator import Line
from elastane.demo.play import Play
from elastane.demo.scores import accuracy_in
from elastane.demo.stage import Cleaned
from elastane.demo.summary import Summary, summarise
from elastane.demo.timeline import Change, changes_of
from elastane.train.reports.events import Event


@dataclass(frozen=True, slots=True)
class Tale:
    """The record of one finished demo; ``changes`` and ``events`` are by the names of jobs."""

    began_s: float
    ended_s: float
    summary: Summary
    lines: tuple[Line, ...]
    changes: Mapping[str, tuple[Change, ...]]
    events: Mapping[str, tuple[Event, ...]]

    def cleaned(self, cleaned: Cleaned) -> Tale:
        """Returns the record with what was cleaned up added."""
        return replace(self, summary=replace(self.summary, cleaned=cleaned))


def collect(play: Play, client: Client, alone: Mapping[str, float | None]) -> Tale:
    """Collects the record while the service can still be asked."""
    ended_s = max((line.at_s for line in play.lines), default=time.time())
    events = {name: play.journals.events(id) for name, id in play.ids.items()}
    accuracies = {name: accuracy_in(play.workplace(name)) for name in play.ids}
    wall_s = ended_s - play.began_s
    return Tale(
        began_s=play.began_s,
        ended_s=ended_s,
        summary=summarise(play.details(), events, accuracies, alone, play.blows, wall_s),
        lines=tuple(play.lines),
        changes={name: changes_of(client.life(id)) for name, id in play.ids.items()},
        events=events,
    )
