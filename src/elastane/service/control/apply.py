"""Applies a decision to jobs' rows: places are taken back first, and given only when they are free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from elastane.cluster import Grant, Node
from elastane.engines.contract import places_of
from elastane.jobs.kinds import JobClass
from elastane.jobs.states import Event, State
from elastane.policies.reasons import Wording, told
from elastane.scheduling.changes import End, Move, Refuse, Renew, Resize, Start, Suspend, changes
from elastane.scheduling.decide import Decision
from elastane.service.control.active_job import LiveJob
from elastane.service.control.cluster_state import ClusterState
from elastane.service.control.ledger import Clock, Ledger
from elastane.service.control.requested_places import named_for, waits, words
from elastane.service.control.slots_in_use import SlotsInUse
from elastane.service.control.state_after_end import Outcome, overlap
from elastane.service.store import Transaction
from elastane.service.wording import A_FOREIGN_JOB


class GrantApplier:
    """Makes the changes of jobs' rows that a decision means; the engine is told by somebody else, once it is stored."""

    def __init__(self, ledger: Ledger, cluster: ClusterState, clock: Clock) -> None:
        self._ledger, self._cluster, self._clock = ledger, cluster, clock

    def apply(self, t: Transaction, decision: Decision, withheld: Mapping[str, str]) -> list[str]:
        """Make the changes that a decision means, in their order; the jobs that it changed."""
        changed = [job for job in decision.downgraded if self._downgrade(t, job)]
        used, room = (
            SlotsInUse(self._ledger.live.values()),
            self._ledger.left_to_others(self._cluster.answering),
        )
        for change in changes(self._present(decision), decision):
            job = self._ledger.live[change.job]
            match change:
                case Refuse() | End():
                    self._turn_away(t, job, self.shown(job, change.reason))
                case Suspend():
                    self._take_away(t, job, withheld.get(job.id, ""))
                case Renew():
                    self._renew(t, job, change.grant)
                    continue
                case Start() | Resize() | Move():
                    if not self._give(t, job, change.grant, used, room):
                        continue
                    used.note(job)
            changed.append(job.id)
        return changed

    def _present(self, decision: Decision) -> dict[str, Grant | None]:
        """What jobs hold that may be changed now: much may have been asked for while the policy was thinking.

        What runs and must not be stopped is among them only where its policy ends it: that is no preemption.
        """
        return {
            job.id: job.row.grant
            for job in self._ledger.live.values()
            if job.movable or (job.id in decision.ended and not job.leaving)
        }

    def _downgrade(self, t: Transaction, job_id: str) -> bool:
        """Lower a job's class for good; whether it had another."""
        job = self._ledger.live.get(job_id)
        if job is None or job.klass is JobClass.OPPORTUNISTIC or job.row.verdict:
            return False
        self._ledger.follow(t, job, Outcome(replace(job.row, verdict="downgrade")))
        return True

    def _turn_away(self, t: Transaction, job: LiveJob, reason: str) -> None:
        """Refuse a job that holds nothing, for good; have one that runs leave, after which it is as if refused."""
        now_s = self._clock()
        if job.row.grant is None:
            row = replace(job.moved(Event.REJECT, now_s), reason=reason, ended_s=now_s, held=False)
            self._ledger.follow(t, job, Outcome(row, ((Event.REJECT, reason),)))
            return
        row = replace(job.moved(Event.END, now_s), ending="cancel", verdict="reject", reason=reason)
        self._ledger.follow(t, job, Outcome(row, ((Event.END, reason),)))

    def _take_away(self, t: Transaction, job: LiveJob, why: str) -> None:
        """Take all that a job holds: it saves its work first, if any of its nodes is left."""
        held = places_of(job.row.grant)
        gone = sorted(held.keys() - self._cluster.answering.keys())
        if gone and len(gone) == len(held):
            self._lose(t, job, f"{', '.join(gone)} was lost")
        else:
            lost = f"{', '.join(gone)} was lost" if gone else "another job needs its place"
            self.suspend(t, job, why or lost)

    def _renew(self, t: Transaction, job: LiveJob, grant: Grant) -> None:
        """Another lease for the same place: nothing is to be done about it, and nothing to be told."""
        self._ledger.follow(t, job, Outcome(replace(job.row, grant=grant)))

    def suspend(self, t: Transaction, job: LiveJob, why: str) -> None:
        """Have a job save its work and leave; one that is lost has nobody who could."""
        if job.row.state is State.LOST:
            return
        row = replace(job.moved(Event.SUSPEND, self._clock()), ending="suspend")
        self._ledger.follow(t, job, Outcome(row, ((Event.SUSPEND, why),)))

    def _lose(self, t: Transaction, job: LiveJob, why: str) -> None:
        """None of its workers is left to save anything; what is left of the attempt is ended."""
        if job.row.state is not State.LOST:
            row = replace(job.moved(Event.LOSE, self._clock()), ending="suspend")
            self._ledger.follow(t, job, Outcome(row, ((Event.LOSE, why),)))

    def _give(
        self, t: Transaction, job: LiveJob, wanted: Grant, used: SlotsInUse, room: Mapping[str, Node]
    ) -> bool:
        places = places_of(wanted)
        if silent := self._unheard(job, places):
            job.waiting = f"nothing new is placed on {', '.join(silent)} at the moment"
            return False
        if not all(_is_free(job, node, count, used, room) for node, count in places.items()):
            job.waiting = self._being_freed(job, places)
            return False
        now = self._clock()
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
        if job.row.first_start_s is not None:
            row = replace(row, changes=row.changes + 1)
        words = ", ".join(f"{count} on {node}" for node, count in places.items())
        self._ledger.follow(t, job, Outcome(row, ((event, words),)))
        job.places = overlap(job.places, places)
        job.waiting = ""
        return True

    def _unheard(self, job: LiveJob, places: Mapping[str, int]) -> list[str]:
        """Nodes that take nothing new now, on which a job would get workers."""
        held = places_of(job.row.grant)
        return sorted(
            node
            for node, count in places.items()
            if count > held.get(node, 0)
            and node in self._cluster.answering
            and not self._cluster.takes_new(node)
        )

    def _being_freed(self, job: LiveJob, places: Mapping[str, int]) -> str:
        """For whom a job waits that was promised these places; one that runs waits only for what its owner wants."""
        if job.row.grant is not None:
            return words(job, list(self._ledger.live.values()), self._cluster.answering) if waits(job) else ""
        there = [j for j in self._ledger.live.values() if j.id != job.id and j.places.keys() & places.keys()]
        going = [j for j in there if j.leaving or j.places != places_of(j.row.grant)]
        return f"its place is being freed by {named_for(job, going or there)}"

    def shown(self, job: LiveJob, reason: str) -> str:
        """A policy's reason as it may be shown with a job: other tenants' jobs are not named to its owner."""

        def named(mentioned: str) -> str:
            live = self._ledger.live.get(mentioned)
            return mentioned if live is None or live.row.tenant == job.row.tenant else A_FOREIGN_JOB

        return told(reason, Wording(self._cluster.gpu_noun(), named))


def _is_free(job: LiveJob, node: str, workers: int, used: SlotsInUse, room: Mapping[str, Node]) -> bool:
    """Whether a node has slots and cores for so many workers that nobody else may still be using."""
    there = room.get(node)
    if there is None or job.slots(workers) > there.gpus - used.by_others(job, node):
        return False
    cores = workers * job.worker.cpus
    return not cores or cores <= there.cpus - used.cores_by_others(job, node) + 1e-9
