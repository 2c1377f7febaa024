"""A job that has not ended, as the control plane holds it: its row, its spec, and what was learned of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from elastane.engines.contract import Attempt, Launch, places_of
from elastane.jobs import JobSpec, parse_spec
from elastane.jobs.kinds import ONE_SIZE, JobClass, Kind
from elastane.jobs.states import HOLDING, Event, State, advance
from elastane.models.history import Memory
from elastane.policies.view import Ability, Info, JobView, Ledger, Request
from elastane.resources import Resources
from elastane.scheduling.abilities_by_kind import ABILITIES
from elastane.scheduling.facts import JobFacts
from elastane.scheduling.views import job_view
from elastane.service.control.evidence import LiveEvidence
from elastane.service.control.job_measurements import JobMeasurements
from elastane.service.control.near_end import Finish
from elastane.service.control.type_sizes import most_workers
from elastane.service.run_kinds import kind_of
from elastane.service.store.rows import JobRow


@dataclass(slots=True)
class LiveJob:
    """One active job; ``row`` is what is stored, the rest is derived or learned."""

    row: JobRow
    spec: JobSpec
    learned: JobMeasurements
    places: dict[str, int] = field(default_factory=dict)
    """Workers by node that may still be running, whatever the grant says."""
    _facts: tuple[JobRow, int, tuple[str, ...], JobFacts] | None = None
    _view: tuple[JobFacts, Info, JobView] | None = None
    waiting: str = ""
    """Why it waits, for people."""
    over_quota: bool = False
    """Whether that is because its tenant's quota has no room for it."""
    since_s: float | None = None
    """When its present attempt was started, as far as this control plane knows."""
    retry_s: float = 0.0
    finish: Finish = field(default_factory=Finish)
    """Whether its present attempt is about to end."""
    told: int = -1
    """With which version of the pool of past jobs it was compared last."""
    worker: Resources = field(init=False)
    """Needs of one worker; kept, because it is asked for in every round."""
    id: str = field(init=False)
    """The id that people call the job by; kept likewise."""
    launch: Launch | None = None
    """How its present attempt is launched, once that was said; kept likewise."""

    def __post_init__(self) -> None:
        self.worker, self.id = self.spec.worker, self.row.id

    @classmethod
    def of(cls, row: JobRow) -> LiveJob:
        """A job as its stored row describes it; a profile that cannot be read is learned anew."""
        spec = parse_spec(dict(row.spec))
        try:
            learned = JobMeasurements.restored(row.kind, row.training, row.profile)
        except Exception:  # made of what the job reported: it is learned anew
            learned = JobMeasurements(row.kind)
        return cls(row, spec, learned, places_of(row.grant))

    @classmethod
    def unlooked(cls, row: JobRow) -> LiveJob:
        """A job without anything that its owner or the job itself wrote: enough to end it and what it runs."""
        row = replace(row, training={}, profile={})
        return cls(row, parse_spec({"command": "true"}), JobMeasurements(row.kind), places_of(row.grant))

    def recall(self, memory: Memory, accelerator: str) -> None:
        """Take in what past jobs like it tell of its work and speed."""
        self.learned.recall(memory, accelerator)
        self._facts = None

    @property
    def kind(self) -> Kind:
        """What may be done to it, as far as its script has shown that by now."""
        return kind_of(self.row)

    @property
    def abilities(self) -> Ability:
        """What a scheduler may do with a job of its kind."""
        return ABILITIES[self.kind]

    @property
    def klass(self) -> JobClass:
        """What it may expect when the cluster is full: as submitted, unless its policy has lowered that."""
        return JobClass.OPPORTUNISTIC if self.row.verdict == "downgrade" else self.spec.klass

    @property
    def attempt(self) -> Attempt:
        """The latest execution of the job, which may be over; number 0 before the first."""
        return Attempt(self.row.id, self.row.attempt)

    @property
    def holding(self) -> bool:
        """Whether it has, or may have, processes."""
        return self.row.state in HOLDING

    @property
    def leaving(self) -> bool:
        """Whether its attempt has been told to end."""
        return bool(self.row.ending) or self.row.state in (State.SUSPENDING, State.STOPPING)

    @property
    def movable(self) -> bool:
        """Whether a plan may change what it has: not if it is on its way out, on hold, or of a single place."""
        row = self.row
        if row.grant is None:
            return not row.held and not row.terminal
        return not self.leaving and self.abilities is not Ability.NONE

    def moved(self, event: Event, now_s: float, **changes: object) -> JobRow:
        """The row after an event of its life, with its ledger brought up to date."""
        row = self.accounted(now_s)
        state = advance(row.state, event)
        return replace(row, state=state, last_change_s=now_s, **changes)  # type: ignore[arg-type]

    def accounted(self, now_s: float) -> JobRow:
        """The row with the service it has received until now."""
        row = self.row
        passed_s = max(0.0, now_s - row.as_of_s)
        gpus = self.gpus
        return replace(
            row,
            as_of_s=now_s,
            service_gpu_s=row.service_gpu_s + gpus * passed_s,
            held_s=row.held_s + (passed_s if row.grant is not None else 0.0),
        )

    @property
    def gpus(self) -> int:
        """GPUs that its grant takes, counted as everywhere."""
        return Request(worker=self.worker).gpus_held(self.row.grant)

    def slots(self, workers: int) -> int:
        """Slots that so many of its workers take on one node."""
        return math.ceil(workers * self.worker.gpus)

    # What it states to the scheduling kernel.

    def most(self, slots: Mapping[str, int]) -> int:
        """The most workers that it could have in a cluster with so many slots of each accelerator type."""
        return most_workers(slots, self.spec.accelerators, self.worker.gpus)

    def request(self, most: int) -> Request:
        """What its owner asked for; ``most`` workers are all that the cluster could ever give."""
        spec, pinned = self.spec, self.row.pinned_workers
        least = spec.workers.min
        if pinned is not None:
            least = greatest = pinned
        elif self.kind in ONE_SIZE:
            greatest = least
        else:
            greatest = max(least, min(spec.max_workers or most, most))
        return Request(
            workers=least,
            min_workers=least,
            max_workers=greatest,
            worker=self.worker,
            types=tuple(spec.accelerators),
            preemptible=spec.preemptible,
        )

    def facts(self, most: int, accelerators: tuple[str, ...]) -> JobFacts:
        """What the scheduling kernel has to know of it on accelerators of these types.

        Kept while it has never run, for then nothing is learned.
        """
        kept = self._facts
        if kept is not None and kept[0] is self.row and kept[1:3] == (most, accelerators):
            return kept[3]
        facts = self._stated(most, accelerators)
        self._facts = (self.row, most, accelerators, facts) if not self.row.attempt else None
        return facts

    def view(self, facts: JobFacts, info: Info) -> JobView:
        """As a policy that declared ``info`` sees these facts; the same facts make the same view."""
        kept = self._view
        if kept is not None and kept[0] is facts and kept[1] == info:
            return kept[2]
        view = job_view(facts, info)
        self._view = (facts, info, view) if not self.row.attempt else None
        return view

    def _stated(self, most: int, accelerators: tuple[str, ...]) -> JobFacts:
        row, spec = self.row, self.spec
        return JobFacts(
            id=row.id,
            submit_s=row.submitted_s,
            request=self.request(most),
            kind=self.kind,
            evidence=LiveEvidence(self.learned, accelerators, spec.deadline_s(row.submitted_s)),
            app=row.name,
            tenant=row.tenant,
            klass=self.klass.value,
            weight=spec.weight,
            priority=spec.priority,
            grant=row.grant,
            ledger=Ledger(
                as_of_s=row.as_of_s,
                gpus=self.gpus,
                service_gpu_s=row.service_gpu_s,
                held_s=row.held_s,
                first_start_s=row.first_start_s,
                last_change_s=row.last_change_s if row.attempt else None,
                restarts=row.changes,
                since_s=self.since_s if self.since_s is not None else row.first_start_s,
            ),
            restart_s=self.learned.change_s if row.grant else self.learned.start_s,
            settled=self.leaving or row.pinned_node is not None,
        )


def slots_of(spec: JobSpec, workers: int) -> int:
    """Slots that so many workers take."""
    return math.ceil(workers * spec.worker.gpus)


def saves_on_head(job: LiveJob) -> bool:
    """Whether a job's checkpoints lie in its run folder, so that it can go on only where that is seen."""
    return job.row.kind == Kind.ADAPTIVE and job.spec.checkpoints is None
