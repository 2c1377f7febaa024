"""From what a policy wants to what jobs get: places are taken back first, and given only when they are free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from elastane.cluster import Grant
from elastane.jobs.states import Event, State
from elastane.policies.plan import Verdict
from elastane.service.control.active_job import LiveJob, places_of
from elastane.service.control.ingest import Hearing
from elastane.service.control.policy_runner import Decision
from elastane.service.control.requested_places import named_for, waits, words
from elastane.service.control.transitions import Outcome, overlap
from elastane.service.store import Transaction
from elastane.service.wording import plainly, without_foreign


class Applying(Hearing):
    """A control plane that gives and takes."""

    def _turn_away(self, t: Transaction, answer: Decision) -> None:
        for job_id, admission in answer.plan.admissions.items():
            job = self.live.get(job_id)
            if admission.verdict is Verdict.REJECT and job is not None and job.row.state is State.QUEUED:
                reason = self.told(job, admission.reason)
                row = replace(job.moved(Event.REJECT, self.clock()), reason=reason, ended_s=self.clock())
                self.follow(t, job, Outcome(row, ((Event.REJECT, reason),)))

    def _apply(self, t: Transaction, grants: Mapping[str, Grant], withheld: Mapping[str, str]) -> list[str]:
        """Take what has to be given up first; what others have not left yet is given later."""
        changed = []
        # Much may have been asked for while the policy was thinking.
        movable = [j for j in self.live.values() if j.movable]
        for job in movable:
            if job.row.grant is not None and job.id not in grants:
                gone = sorted(places_of(job.row.grant).keys() - self._nodes.keys())
                if gone and len(gone) == len(places_of(job.row.grant)):
                    self._lose(t, job, f"{', '.join(gone)} was lost")
                else:
                    why = f"{', '.join(gone)} was lost" if gone else "another job needs its place"
                    self._suspend(t, job, withheld.get(job.id, why))
                changed.append(job.id)
        for job in sorted(movable, key=lambda j: _growth(j, grants.get(j.id))):
            wanted = grants.get(job.id)
            if wanted is None or (job.row.grant is not None and wanted.same_place(job.row.grant)):
                continue
            if self._give(t, job, wanted):
                changed.append(job.id)
        return changed

    def _suspend(self, t: Transaction, job: LiveJob, why: str) -> None:
        if job.row.state is State.LOST:
            return
        row = replace(job.moved(Event.SUSPEND, self.clock()), ending="suspend")
        self.follow(t, job, Outcome(row, ((Event.SUSPEND, why),)))

    def _lose(self, t: Transaction, job: LiveJob, why: str) -> None:
        """None of its workers is left to save anything; what is left of the attempt is ended."""
        if job.row.state is not State.LOST:
            row = replace(job.moved(Event.LOSE, self.clock()), ending="suspend")
            self.follow(t, job, Outcome(row, ((Event.LOSE, why),)))

    def _give(self, t: Transaction, job: LiveJob, wanted: Grant) -> bool:
        free = self._free(besides=job.id)
        places = places_of(wanted)
        if any(job.slots(count) > free.get(node, 0) for node, count in places.items()):
            job.waiting = self._being_freed(job, places)
            return False
        now = self.clock()
        if job.row.grant is None:
            row = replace(
                job.moved(Event.START, now),
                grant=wanted,
                attempt=job.row.attempt + 1,
                first_start_s=job.row.first_start_s or now,
                reason="",
            )
            event = Event.START
            job.since_s = now
        elif job.row.state is State.RUNNING and places == job.places:
            # It lost a node and has gone on without: there is nothing left to do for the engine.
            row, event = replace(job.accounted(now), grant=wanted), Event.RESIZED
        elif job.row.state is State.RUNNING:
            row, event = replace(job.moved(Event.RESIZE, now), grant=wanted), Event.RESIZE
        else:
            row, event = replace(job.accounted(now), grant=wanted), Event.RESIZE
        words = ", ".join(f"{count} on {node}" for node, count in places.items())
        self.follow(t, job, Outcome(row, ((event, words),)))
        job.places = overlap(job.places, places)
        job.waiting = ""
        return True

    def _being_freed(self, job: LiveJob, places: Mapping[str, int]) -> str:
        """For whom a job waits that was promised these places; one that runs waits only for what its owner wants."""
        if job.row.grant is not None:
            return words(job, list(self.live.values()), self._nodes) if waits(job) else ""
        there = [j for j in self.live.values() if j.id != job.id and j.places.keys() & places.keys()]
        going = [j for j in there if j.leaving or j.places != places_of(j.row.grant)]
        return f"its place is being freed by {named_for(job, going or there)}"

    def told(self, job: LiveJob, reason: str) -> str:
        """A policy's reason as it may be shown with a job."""
        reason = without_foreign(reason, job.row.tenant, self._tenant_of)
        return plainly(reason, self.accelerator())

    def _tenant_of(self, job: str) -> str | None:
        live = self.live.get(job)
        return None if live is None else live.row.tenant

    def _free(self, besides: str) -> dict[str, int]:
        """Slots by node that nobody else may still be using."""
        free = {name: node.gpus for name, node in self._nodes.items()}
        for job in self.live.values():
            if job.id == besides or not (job.places or job.row.grant):
                continue
            for node, count in overlap(job.places, places_of(job.row.grant)).items():
                if node in free:
                    free[node] -= job.slots(count)
        return free


def _growth(job: LiveJob, wanted: Grant | None) -> int:
    """Who gives something up comes first."""
    return (wanted.workers if wanted else 0) - (job.row.grant.workers if job.row.grant else 0)
