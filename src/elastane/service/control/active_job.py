"""A job that has not ended, as the control plane holds it: its row, its spec, and what was learned of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from elastane.engines.contract import Attempt
from elastane.engines.contract import places_of as places_of
from elastane.jobs import JobSpec, parse_spec
from elastane.jobs.states import HOLDING, Event, State, advance
from elastane.models.history import Memory
from elastane.policies.view import ELASTIC, Ability, Facts, JobState, JobView, Ledger, Request
from elastane.resources import Resources
from elastane.service.control.job_measurements import Learned
from elastane.service.control.near_end import Finish
from elastane.service.store.rows import JobRow

ABILITIES = {
    "adaptive": ELASTIC,
    "resizable": Ability.SUSPEND | Ability.MIGRATE | Ability.RESIZE,
    "rigid": Ability.NONE,
}
"""What a kind of job can do on a live cluster.  A rigid one can only run to its end: it would lose all its work."""


@dataclass(slots=True)
class LiveJob:
    """One active job; ``row`` is what is stored, the rest is derived or learned."""

    row: JobRow
    spec: JobSpec
    learned: Learned
    places: dict[str, int] = field(default_factory=dict)
    """Workers by node that may still be running, whatever the grant says."""
    _seen: tuple[JobRow, int, str, JobView] | None = None
    waiting: str = ""
    since_s: float | None = None
    """When its present attempt was started, as far as this control plane knows."""
    retry_s: float = 0.0
    finish: Finish = field(default_factory=Finish)
    """Whether its present attempt is about to end."""
    told: int = -1
    """With which version of the pool of past jobs it was compared last."""
    worker: Resources = field(init=False)
    """Needs of one worker; kept, because it is asked for in every round."""

    def __post_init__(self) -> None:
        self.worker = self.spec.worker

    @classmethod
    def of(cls, row: JobRow) -> LiveJob:
        """From the store."""
        spec = parse_spec(dict(row.spec))
        try:
            learned = Learned.restored(row.kind, row.training, row.profile)
        except Exception:  # made of what the job reported: it is learned anew
            learned = Learned(row.kind)
        return cls(row, spec, learned, places_of(row.grant))

    def recall(self, memory: Memory, accelerator: str) -> None:
        """Be told of past jobs like it."""
        self.learned.recall(memory, accelerator)
        self._seen = None

    @property
    def id(self) -> str:
        """The job's."""
        return self.row.id

    @property
    def attempt(self) -> Attempt:
        """The latest."""
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
        return not self.leaving and ABILITIES[row.kind] is not Ability.NONE

    def moved(self, event: Event, now_s: float, **changes: object) -> JobRow:
        """The row after an event of its life, with its ledger brought up to date."""
        row = self.accounted(now_s)
        state = advance(row.state, event)
        return replace(row, state=state, last_change_s=now_s, **changes)  # type: ignore[arg-type]

    def accounted(self, now_s: float) -> JobRow:
        """The row with the service it has received until now."""
        row = self.row
        passed_s = max(0.0, now_s - row.as_of_s)
        gpus = row.grant.workers * self.worker.gpus if row.grant is not None else 0.0
        return replace(
            row,
            as_of_s=now_s,
            service_gpu_s=row.service_gpu_s + gpus * passed_s,
            held_s=row.held_s + (passed_s if row.grant is not None else 0.0),
        )

    def slots(self, workers: int) -> int:
        """Slots that so many of its workers take on one node."""
        return math.ceil(workers * self.worker.gpus)

    # What a policy sees.

    def request(self, most: int) -> Request:
        """What its owner asked for; ``most`` workers are all that the cluster could ever give."""
        spec, pinned = self.spec, self.row.pinned_workers
        least = spec.workers.min
        if pinned is not None:
            least = greatest = pinned
        elif self.row.kind == "rigid":
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

    def view(self, most: int, accelerator: str) -> JobView:
        """As a policy may see it.  Of a job that has never run nothing is learned, so its view is kept."""
        seen = self._seen
        if seen is not None and seen[0] is self.row and seen[1:3] == (most, accelerator):
            return seen[3]
        view = self._view(most, accelerator)
        self._seen = (self.row, most, accelerator, view) if not self.row.attempt else None
        return view

    def _view(self, most: int, accelerator: str) -> JobView:
        row, spec = self.row, self.spec
        fixed = self.leaving or row.pinned_node is not None
        abilities = Ability.NONE if fixed else ABILITIES[row.kind]
        state = JobState.RUNNING if row.grant else JobState.SUSPENDED if row.attempt else JobState.PENDING
        return JobView(
            id=row.id,
            submit_s=row.submitted_s,
            request=self.request(most),
            app=row.name,
            tenant=row.tenant,
            klass=spec.klass.value,
            weight=spec.weight,
            priority=spec.priority,
            abilities=abilities,
            state=state,
            grant=row.grant,
            ledger=Ledger(
                as_of_s=row.as_of_s,
                gpus=row.grant.workers if row.grant else 0,
                service_gpu_s=row.service_gpu_s,
                held_s=row.held_s,
                first_start_s=row.first_start_s,
                last_change_s=row.last_change_s if row.attempt else None,
                restarts=row.restarts,
                since_s=self.since_s if self.since_s is not None else row.first_start_s,
            ),
            restart_s=self.learned.change_s if row.grant else self.learned.start_s,
            facts=Facts(
                remaining=self.learned.remaining,
                speed=self.learned.speed(accelerator),
                deadline_s=spec.deadline_s(row.submitted_s),
            ),
        )


def slots_of(spec: JobSpec, workers: int) -> int:
    """Slots that so many workers take."""
    return math.ceil(workers * spec.worker.gpus)
