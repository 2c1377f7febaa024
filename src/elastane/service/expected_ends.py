"""Caches when jobs that do not train yet are expected to end: looking ahead costs the same however many people ask."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from elastane.jobs.states import State
from elastane.service.control.active_job import LiveJob
from elastane.service.eta_waiting import ClusterNow, foresee
from elastane.service.messages import Eta

_FRESH_S = 1.0
"""How long an answer is given again, unless other jobs wait by then."""


class ExpectedEnds:
    """Looks ahead over all jobs that wait, at most once in a while."""

    def __init__(self, jobs: Callable[[], Mapping[str, LiveJob]], ground: Callable[[], ClusterNow]) -> None:
        self._jobs, self._ground = jobs, ground
        self._computed_s = -math.inf
        self._ends: Mapping[str, Eta] = {}

    def of_waiting(self) -> Mapping[str, Eta]:
        """The expected end of every active job that does not train now, by its id."""
        jobs, ground = self._jobs(), self._ground()
        waiting = {j.id for j in jobs.values() if j.row.state not in (State.RUNNING, State.RESIZING)}
        fresh = 0.0 <= ground.now_s - self._computed_s < _FRESH_S
        if not fresh or self._ends.keys() != waiting:
            self._computed_s, self._ends = ground.now_s, foresee(jobs.values(), ground)
        return self._ends

    def forget(self) -> None:
        """Look ahead anew at the next question."""
        self._computed_s = -math.inf
