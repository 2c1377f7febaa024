"""``WorkerDeaths`` judges every end of a worker: what it means for the generation, and whether the job has failed."""

from __future__ import annotations

from elastane.train.coordinator.actions import UNTIMED_S
from elastane.train.coordinator.failures_in_a_row import Deaths, Unconnected
from elastane.train.coordinator.job_end import JobEnd
from elastane.train.coordinator.liveness import left_early
from elastane.train.coordinator.membership_changes import MembershipChanges
from elastane.train.coordinator.membership_plan import Kind, Plan
from elastane.train.coordinator.memory_ceiling import Halved, Hopeless, MemoryCeiling
from elastane.train.coordinator.outbox import Outbox
from elastane.train.coordinator.plan_entries import MemoryLimited, WorkerGone
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.transitions import Abandoned, Entering
from elastane.train.coordinator.worker_registry import WorkerRegistry
from elastane.train.coordinator.worker_table import Phase, Worker
from elastane.train.exit_cause import ExitCause, ExitKind, given_up
from elastane.train.reports.events import Limited, WorkerLost


class WorkerDeaths:
    """Workers of one job that died, were fenced, or cannot be reached by the others."""

    def __init__(
        self,
        settings: Settings,
        registry: WorkerRegistry,
        outbox: Outbox,
        changes: MembershipChanges,
        end: JobEnd,
        memory: MemoryCeiling,
    ) -> None:
        self._deaths = Deaths(settings.max_deaths)
        self._unconnected = Unconnected(settings.max_apart)
        self._registry = registry
        self._out = outbox
        self._changes = changes
        self._end = end
        self._memory = memory

    @property
    def any_since_last_step(self) -> bool:
        """Whether somebody has died since the job made progress."""
        return self._deaths.count(self._registry.step) > 0

    def all_connected(self) -> None:
        """A plan has been entered by all its members."""
        self._unconnected.explained()

    def exited(self, worker: Worker, cause: ExitCause) -> None:
        """A worker's process is gone, or cannot come back."""
        phase, worker.phase = worker.phase, Phase.GONE
        cause = cause.told(worker.words).said(worker.words)
        clean = cause.clean and not worker.words
        if clean and (worker.done or phase is not Phase.MEMBER or self._end.stopping):
            return
        if worker.done and not worker.words and cause.kind in (ExitKind.NODE_LOST, ExitKind.SIGNAL):
            self._killed_after_training(worker, phase, cause)
        elif worker.done:
            self._end.fail(_failing(cause).told(f"worker {worker.name} failed after training: {cause}"))
        elif clean:
            others = sum(not w.done for w in self._registry.in_phase(Phase.MEMBER))
            self._end.fail(given_up(left_early(worker.name, self._registry.step, others)))
        else:
            if self._changes.current is None and not worker.seen_s and worker.words:
                self._deaths.before_init(worker)
            self._lost(worker, phase, _failing(cause))

    def fence(self, worker: Worker, why: str) -> None:
        """Give a worker up: whatever it still does, it is not part of the job any more."""
        self._out.kill(worker.name, why)
        phase, worker.phase = worker.phase, Phase.GONE
        if not worker.done:
            self._lost(worker, phase, given_up(why))

    def never_heard(self, worker: Worker, why: str) -> None:
        """A worker has not come to its hello in time."""
        worker.words = why
        if self._changes.current is None:
            self._deaths.before_init(worker)

    def apart(self, name: str, plan: Plan, why: str) -> None:
        """A worker could not connect the group of an urgent plan that is under way."""
        if not self._unconnected.is_news(plan.generation):
            return  # another has said so before
        too_often = self._unconnected.another(plan.generation)
        cause = self._who_is_apart(name, plan, why)
        self._changes.warn(cause)
        if too_often and plan.kind is Kind.START:
            self._end.fail(given_up(cause))
        elif too_often:
            self.fence(self._registry[name], cause)

    def _who_is_apart(self, name: str, plan: Plan, why: str) -> str:
        def at(worker: str) -> str:
            return f"{worker} at {self._registry[worker].host or 'an address it did not tell'}"

        others = [at(other) for other in plan.members if other != name]
        rest = f" and {len(others) - 3} others" if len(others) > 3 else ""
        return f"worker {at(name)} could not be connected with {', '.join(others[:3])}{rest}: {why}"

    def _lost(self, worker: Worker, phase: Phase, cause: ExitCause) -> None:
        self._unconnected.explained()  # who could not be connected may have been this one
        self._changes.communicators.explained()
        step = self._registry.step
        self._out.record(WorkerGone(worker.name))
        self._out.tell(WorkerLost(UNTIMED_S, worker.name, str(cause), step))
        judgement = self._memory.judge(worker, cause, self._changes.generations.published + 1)
        if isinstance(judgement, Hopeless):
            self._end.fail(cause.told(judgement.words))
            return
        if isinstance(judgement, Halved):
            self._halve(worker, judgement)
        if cause.kind is not ExitKind.NODE_LOST and judgement is None:  # a machine's end is not the script's
            self._deaths.another(step)
        trains = self._registry.in_phase(Phase.MEMBER, Phase.JOINING)
        if phase is Phase.MEMBER and worker.words and not trains and judgement is None:
            self._end.fail(cause)
        elif self._deaths.too_many(step):
            count = self._deaths.count(step)
            self._end.fail(cause.told(f"{count} workers died without a step between them; the last: {cause}"))
        else:
            self._go_on_without(worker, phase, cause)

    def _go_on_without(self, worker: Worker, phase: Phase, cause: ExitCause) -> None:
        entering = isinstance(self._changes.transition, Entering | Abandoned)
        if phase is Phase.MEMBER or (phase is Phase.JOINING and entering):
            self._changes.end_generation(f"worker {worker.name} was lost: {cause}")
        elif phase is Phase.JOINING:
            self._changes.give_up()
        elif self._changes.current is None and worker.words:
            self._end.fail(cause)

    def _halve(self, worker: Worker, halved: Halved) -> None:
        """The next plan says so to all members; the log remembers it for newcomers and restarts."""
        self._out.record(MemoryLimited(halved.after))
        self._out.tell(Limited(UNTIMED_S, worker.name, halved.before, halved.after, self._registry.step))

    def _killed_after_training(self, worker: Worker, phase: Phase, cause: ExitCause) -> None:
        """Others have the same result; if there are none, the end of the script is repeated."""
        worker.done = False  # how far it came in the rest of its script nobody knows
        if any(other.done for other in self._registry.workers.values()):
            self._out.record(WorkerGone(worker.name))
            text = f"worker {worker.name} was lost after training ({cause}); the others have its result"
            self._changes.warn(text)
        else:
            self._lost(worker, phase, cause)


def _failing(cause: ExitCause) -> ExitCause:
    """The cause of a process that says it failed, even where its exit code is 0."""
    return given_up(str(cause)).said(cause.words) if cause.clean else cause
