"""``Deadlines`` looks, when time has passed, for workers that are silent, hang, come late, or have gone too early."""

from __future__ import annotations

from elastane.train.coordinator.hang_detection import first_steps
from elastane.train.coordinator.job_end import JobEnd
from elastane.train.coordinator.liveness import desertion, hanging, late, silence, unheard
from elastane.train.coordinator.membership_changes import MembershipChanges
from elastane.train.coordinator.places_apart import places_apart
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.worker_deaths import WorkerDeaths
from elastane.train.coordinator.worker_registry import WorkerRegistry
from elastane.train.exit_cause import given_up


class Deadlines:
    """The limits of time of one job, and what follows when one has passed."""

    def __init__(
        self,
        settings: Settings,
        registry: WorkerRegistry,
        changes: MembershipChanges,
        deaths: WorkerDeaths,
        end: JobEnd,
    ) -> None:
        self._step_s = 0.0
        self._settings = settings
        self._registry = registry
        self._changes = changes
        self._worker_deaths = deaths
        self._end = end

    def pace(self, step_s: float) -> None:
        """What a step takes at present, so that slow models are not taken for hung ones."""
        self._step_s = step_s

    def look(self, now_s: float) -> None:
        """Give up who is overdue, and what takes too long."""
        self._look_for_silence(now_s)
        if not self._changes.broken:
            stuck = hanging(self._registry.alive, self._settings, self._step_s, now_s)
            if stuck is not None:
                self._worker_deaths.fence(*stuck)
            self._look_for_other_places(now_s)
        deserted = desertion(self._registry.alive, self._settings, now_s)
        if deserted is not None:
            self._end.fail(given_up(deserted))
        overdue = self._changes.look_at_deadline(now_s)
        if overdue is not None:
            for worker in late(map(self._registry.workers.__getitem__, overdue.members), overdue):
                self._worker_deaths.fence(worker, f"did not enter generation {overdue.generation}")

    def _look_for_other_places(self, now_s: float) -> None:
        apart = places_apart(self._registry.alive, self._settings, self._step_s, now_s)
        if apart is None:
            return
        if not apart.strays:
            self._end.fail(given_up(apart.why))
        else:
            self._changes.join_at_loops()
        for worker in apart.strays:
            self._worker_deaths.fence(worker, apart.why)

    def _look_for_silence(self, now_s: float) -> None:
        for worker in self._registry.alive:
            why = silence(worker, self._settings, now_s)
            never = unheard(worker, self._settings, now_s)
            if never is not None:
                self._worker_deaths.never_heard(worker, never)
            if why is not None or never is not None:
                self._worker_deaths.fence(worker, why or never or "")

    def first_steps(self, now_s: float) -> tuple[str, float] | None:
        """Who has been longest in one of its first steps, and for how many seconds."""
        return first_steps(self._registry.alive, now_s)
