"""Runs the demo: submits jobs, kills processes, and reports every change, until all jobs have ended."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from elastane.client import Client
from elastane.demo.cast import Role
from elastane.demo.chaos import Blow, Target, Victim, agent_to_kill, strike, worker_to_kill
from elastane.demo.journals import Journals
from elastane.demo.narrator import Line, Narrator, line_of
from elastane.demo.stage import Stage
from elastane.service.messages import JobDetail, JobSummary
from elastane.train.reports.events import Resized

_LOOK_S = 0.4
_FIRST_BLOW_S, _BETWEEN_BLOWS_S = 4.0, 10.0
_PATIENCE_S = 40.0
"""Seconds to wait for a job with several workers to kill one of; after that, one worker is enough."""
_START_S = 60.0
"""Seconds that the other jobs wait for the first one to train; then they arrive all the same."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The jobs at one moment, and the lines written since the last scene."""

    at_s: float
    jobs: tuple[JobSummary, ...]
    lines: tuple[Line, ...]


class Play:
    """One run of the demo; afterwards it holds the jobs' ids, the lines and the kills."""

    longest_s: ClassVar[float] = 300.0

    def __init__(self, stage: Stage, client: Client, cast: Sequence[Role]) -> None:
        self.ids: dict[str, str] = {}
        self.lines: list[Line] = []
        self.blows: list[Blow] = []
        self.began_s = time.time()
        self.journals = Journals(stage.layout)
        self._stage = stage
        self._client = client
        self._cast = cast
        self._narrator = Narrator()
        self._trained: set[str] = set()
        self._trains_s: float | None = None

    def scenes(self) -> Iterator[Scene]:
        """Yields scenes until every job has ended, or the demo has taken far too long."""
        while True:
            now_s = time.time()
            lines = self._arrivals(now_s)
            jobs = sorted(self._client.jobs("all"), key=lambda job: (job.submitted_s, job.id))
            lines += self._heard(jobs, now_s) + self._trouble(jobs, now_s)
            lines.sort(key=lambda line: line.at_s)
            self.lines += lines
            yield Scene(now_s, tuple(jobs), tuple(lines))
            if self._is_over(jobs) or now_s - self.began_s > self.longest_s:
                return
            time.sleep(_LOOK_S)

    def _is_over(self, jobs: Sequence[JobSummary]) -> bool:
        return len(jobs) == len(self._cast) and all(job.ended_s is not None for job in jobs)

    def _may_begin(self) -> bool:
        """Whether the first job may arrive."""
        return True

    def workplace(self, name: str) -> Path:
        """Returns the folder that a job runs in."""
        return self._stage.workplace(name)

    def details(self) -> dict[str, JobDetail]:
        """Asks the service for the details of each job, by name."""
        return {name: self._client.job(id) for name, id in self.ids.items()}

    def _arrivals(self, now_s: float) -> list[Line]:
        since_s = now_s - self._trains_s if self._trains_s is not None else -1.0
        late = now_s - self.began_s - _START_S
        lines: list[Line] = []
        if not self.ids and not self._may_begin():
            return lines
        for role in self._cast:
            if role.name in self.ids or (self.ids and max(since_s, late) < role.arrives_s):
                continue
            there = self._client.submit(role.spec(), directory=self.workplace(role.name))
            self.ids[role.name] = there.id
            size = f"{role.least}–{role.most} workers" if role.most > role.least else f"{role.least} worker"
            lines.append(Line(now_s, f"{role.name} arrives ({role.character}; {size})"))
        return lines

    def _heard(self, jobs: Sequence[JobSummary], now_s: float) -> list[Line]:
        lines = self._narrator.about_jobs(jobs, now_s)
        for name, id in self.ids.items():
            for event in self.journals.fresh(id):
                line = line_of(name, event, again=name in self._trained)
                lines += [line] if line is not None else []
                if isinstance(event, Resized):
                    self._trained.add(name)
                    self._trains_s = self._trains_s or event.at_s
        return lines

    # Trouble.

    def _trouble(self, jobs: Sequence[JobSummary], now_s: float) -> list[Line]:
        nodes = self._client.nodes()
        lines = self._narrator.about_nodes(nodes, now_s)
        if not self._may_strike(now_s):
            return lines
        details = [self._client.job(job.id) for job in jobs if job.ended_s is None]
        victim: Victim | None
        if not self.blows:
            victim = worker_to_kill(details, 2 if now_s - (self._trains_s or now_s) < _PATIENCE_S else 1)
        else:
            victim = agent_to_kill(nodes, details, self._stage.layout)
        blow = strike(victim, now_s) if victim is not None else None
        if blow is not None:
            self.blows.append(blow)
            lines.append(Line(now_s, blow.sentence()))
        return lines

    def _may_strike(self, now_s: float) -> bool:
        if self._trains_s is None or len(self.blows) == len(Target):
            return False
        if not self.blows:
            return now_s - self._trains_s >= _FIRST_BLOW_S
        return now_s - self.blows[-1].at_s >= _BETWEEN_BLOWS_S
