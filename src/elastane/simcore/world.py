"""The event core: lets jobs train, asks the policy, applies its plans.  No workloads, no reports."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from elastane.cluster import Cluster, Grant
from elastane.errors import ElastaneError
from elastane.models.online import first_batch
from elastane.policies.contract import Policy
from elastane.policies.view import Tenant, View, has
from elastane.scheduling.changes import End, Refuse, Renew, Suspend, changes
from elastane.scheduling.decide import Decision, decide
from elastane.scheduling.views import CHANGING
from elastane.simcore.agents import Agents, Recall
from elastane.simcore.job_run import Arrival, JobRun
from elastane.simcore.physics import Physics
from elastane.simcore.views import ViewBuilder

_MOST_IDLE_ROUNDS = 1000


class _Kind(IntEnum):
    """What happens first when several things happen at one instant."""

    JOB = 0  # a segment or the whole job ends
    OUTAGE = 1  # nodes go or come back
    WAKE = 2  # the policy asked to be called
    ARRIVAL = 3
    TICK = 4


@dataclass(frozen=True, slots=True)
class Outage:
    """A node that is away from ``down_s`` to ``up_s``."""

    node: str
    down_s: float
    up_s: float


class World:
    """A cluster, its jobs and one policy, moving through time."""

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        arrivals: Iterable[Arrival],
        physics: Physics | None = None,
        *,
        seed: int = 0,
        outages: Sequence[Outage] = (),
        tenants: Mapping[str, Tenant] | None = None,
        on_decision: Callable[[Decision], None] | None = None,
        on_progress: Callable[[int], None] | None = None,
        timer: Callable[[], float] = time.perf_counter,
        recall: Recall | None = None,
    ) -> None:
        self.cluster, self.policy, self.physics = cluster, policy, physics or Physics()
        self.now_s = 0.0
        self.decision_ms: list[float] = []
        self.waiting: Mapping[str, str] = {}
        self._arrivals = sorted(arrivals, key=lambda a: (a.submit_s, a.id))
        self.total_jobs = len(self._arrivals)
        if len({arrival.id for arrival in self._arrivals}) < self.total_jobs:
            raise ElastaneError("two jobs share an id")
        self.jobs: dict[str, JobRun] = {}
        self.active: dict[str, JobRun] = {}
        self.rejected: dict[str, str] = {}
        self._down: Counter[str] = Counter()  # outages of one node may overlap
        self._views = ViewBuilder(policy.needs, seed, tenants or {}, self.physics.min_run_s)
        self._memory: object = None
        self._on_decision, self._on_progress, self._timer = on_decision, on_progress, timer
        self._heap: list[tuple[float, int, int, str, int]] = []
        self._sequence = 0
        self._plans = 0
        self._agents = Agents(policy.needs, self.physics, seed, recall)
        self.period_s = self.physics.interval_s or policy.needs.period_s
        if not self.physics.rounds_only and policy.needs.period_s is None:
            self.period_s = None  # event-driven policies need no rounds
        if self.physics.rounds_only and not self.period_s:
            self.period_s = 60.0
        for index, arrival in enumerate(self._arrivals):
            self._push(arrival.submit_s, _Kind.ARRIVAL, "", index)
        for index, outage in enumerate(outages):
            self._push(outage.down_s, _Kind.OUTAGE, outage.node, index)
            self._push(outage.up_s, _Kind.OUTAGE, outage.node, -1)
        self._ticking = False
        self._idle_rounds = 0

    @property
    def fits(self) -> int:
        """How often a job's model was fitted."""
        return self._agents.fits

    # ---- time ------------------------------------------------------------------------------------------

    def run(self, until_s: float = float("inf")) -> None:
        """Go on until all jobs have finished, or until ``until_s``."""
        while self._heap and (self.active or self._has_arrivals()):
            if self._heap[0][0] > until_s:
                break
            self.now_s = self._heap[0][0]
            trigger = ""
            while self._heap and self._heap[0][0] <= self.now_s + 1e-9:
                _, kind, _, name, number = heapq.heappop(self._heap)
                trigger = self._happen(_Kind(kind), name, number) or trigger
            if trigger:
                self._decide(trigger)
            if self._stalled(trigger):
                break
        if np.isfinite(until_s) and self.now_s < until_s:
            self.now_s = until_s
            for run in self.active.values():
                self._advance(run, until_s)

    def _stalled(self, trigger: str) -> bool:
        """Whether round after round nobody runs and nothing else can happen: such jobs never will."""
        idle = trigger == "tick" and not any(run.grant for run in self.active.values())
        self._idle_rounds = self._idle_rounds + 1 if idle and len(self._heap) <= 1 else 0
        return self._idle_rounds >= _MOST_IDLE_ROUNDS

    def _has_arrivals(self) -> bool:
        return len(self.jobs) < self.total_jobs

    def _push(self, when_s: float, kind: _Kind, name: str = "", number: int = 0) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (when_s, int(kind), self._sequence, name, number))

    def _happen(self, kind: _Kind, name: str, number: int) -> str:
        """Handle one event; the answer is the trigger of a decision, or nothing."""
        needs, rounds_only = self.policy.needs, self.physics.rounds_only
        if kind is _Kind.ARRIVAL:
            self._arrive(self._arrivals[number])
            return "arrival" if needs.on_arrival and not rounds_only else ""
        if kind is _Kind.JOB:
            run = self.active.get(name)
            if run is None or run.version != number:
                return ""
            self._advance(run, self.now_s)
            if run.finish_s is None:
                self._schedule(run)
                return ""
            self._retire(run)
            self._reschedule(self._interfere([]))  # its neighbours may go faster now
            return "finish" if needs.on_finish else ""
        if kind is _Kind.OUTAGE:
            self._outage(name, number >= 0)
            return "" if rounds_only else "node"
        if kind is _Kind.WAKE:
            return "timer" if number == self._plans else ""
        self._ticking = False
        return self._tick()

    def _tick(self) -> str:
        if self.physics.rounds_only:
            for run in list(self.active.values()):
                self._advance(run, self.now_s)
                if run.finish_s is not None:
                    self._retire(run)
        if self.active:
            self._start_ticking()
            return "tick"
        return ""

    def _start_ticking(self, now_too: bool = False) -> None:
        """Have the next round at a multiple of the period, this instant included or not, unless one is due."""
        if self.period_s and not self._ticking:
            self._ticking = True
            periods = self.now_s / self.period_s
            rounds = int(np.ceil(periods - 1e-9)) if now_too else int(periods + 1e-9) + 1
            self._push(max(rounds, 1) * self.period_s, _Kind.TICK)

    # ---- jobs ------------------------------------------------------------------------------------------

    def _arrive(self, arrival: Arrival) -> None:
        restart_s = self.physics.restart_s if arrival.restart_s is None else arrival.restart_s
        memory = self._agents.memory(arrival)
        run = JobRun(arrival, self._agents.learner(arrival, memory), restart_s, self.now_s, memory=memory)
        run.server_learner = self._agents.server_learner(arrival)
        self.jobs[run.id] = self.active[run.id] = run
        self._start_ticking(now_too=True)

    def _advance(self, run: JobRun, to_s: float) -> None:
        run.advance(to_s, self._agents.at_segment_end, self._agents.measure, self.physics.whole_seconds)

    def _retire(self, run: JobRun) -> None:
        del self.active[run.id]
        run.version += 1
        self._views.forget(run.id)
        self._views.finished_service.append(run.service_gpu_s)
        if self._on_progress:
            self._on_progress(len(self.jobs) - len(self.active))

    def _schedule(self, run: JobRun) -> None:
        """Have an event at the end of the present segment, in place of any earlier one."""
        run.version += 1
        if run.grant is not None and not self.physics.rounds_only:
            left_s = run.seconds_to_segment_end()
            if left_s < np.inf:  # a job that makes no progress has no end to wait for
                self._push(run.as_of_s + left_s, _Kind.JOB, run.id, run.version)

    def _reschedule(self, runs: Iterable[JobRun]) -> None:
        for run in runs:
            self._schedule(run)

    def _outage(self, node: str, down: bool) -> None:
        if not down:
            self._down[node] -= 1
            return
        self._down[node] += 1
        for run in list(self.active.values()):
            self._advance(run, self.now_s)
            if run.finish_s is not None:
                self._retire(run)
            elif run.grant and node in run.grant.nodes:
                self._lose_work(run)
                self._change(run, None)

    def _lose_work(self, run: JobRun) -> None:
        """Back to the last periodic checkpoint, at worst to the one every move begins with."""
        if run.restart_left_s > 0.0 or run.grant is None:
            return
        since_s = (self.now_s - run.training_since_s) % self.physics.checkpoint_interval_s
        pace = run.refresh_pace()
        run.done = max(run.done - pace.rate * run.slowdown * since_s, run.saved_work)
        run.pace = None

    # ---- decisions -------------------------------------------------------------------------------------

    def view(self, trigger: str = "tick") -> View:
        """What the policy would see now."""
        known = self.cluster.nodes
        nodes = {i: node for i, node in known.items() if self._down[i] <= 0}
        return self._views.build(self.now_s, self.active, nodes, known, trigger, self._memory, self._plans)

    def _decide(self, trigger: str) -> None:
        if not self.active:
            return
        self._catch_up()
        if not self.active:
            return
        decision = decide(self.policy, self.view(trigger), self._timer)
        self.decision_ms.append(decision.took_ms)
        self._memory = decision.plan.memory
        self._plans += 1
        self.waiting = decision.lowered.waiting
        self._apply(decision)
        if not self.physics.rounds_only:
            for wake_s in filter(np.isfinite, decision.plan.wake_s):
                self._push(max(wake_s, self.now_s), _Kind.WAKE, number=self._plans)
        self._start_ticking()
        if self._on_decision:
            self._on_decision(decision)

    def _catch_up(self) -> None:
        """Bring models up to date before a decision that reads them."""
        info = self.policy.needs.info
        if has(info, CHANGING) and not self.physics.rounds_only:
            for run in list(self.active.values()):
                self._advance(run, self.now_s)
                if run.finish_s is not None:
                    self._retire(run)
        self._reschedule(self._agents.catch_up(self.active.values()))

    def _apply(self, decision: Decision) -> None:
        changed = set()
        for change in changes({run.id: run.grant for run in self.active.values()}, decision):
            run = self.active[change.job]
            if isinstance(change, Renew):
                run.grant = change.grant
                self._views.forget(run.id)
                continue
            self._advance(run, self.now_s)
            if isinstance(change, Refuse | End):
                self._turn_away(run, change.reason)
                continue
            self._change(run, None if isinstance(change, Suspend) else change.grant)
            changed.add(run.id)
        for job in decision.downgraded:
            if job in self.active:
                self.active[job].downgraded = True
                self._views.forget(job)
        runs = [run for run in self.active.values() if run.id in changed]  # in this order they are told apart
        self._agents.rebatch([run for run in runs if run.grant is not None], 0.0)
        self._reschedule(self._interfere(runs))

    def _turn_away(self, run: JobRun, reason: str) -> None:
        """End a job that was refused or stopped: it is gone, but did not finish."""
        if run.finish_s is not None:  # it ended at this very instant
            self._retire(run)
            return
        self._change(run, None)
        del self.active[run.id]
        self.rejected[run.id] = reason

    def _change(self, run: JobRun, new: Grant | None) -> None:
        """Take the old grant away, give the new one, and start paying for the move."""
        run.close_span()
        self._views.forget(run.id)
        resumes = run.grant is None
        run.since_s = self.now_s if resumes else run.since_s
        run.hold(new)
        run.last_change_s, run.restart_left_s = self.now_s, 0.0
        run.version += 1
        if new is None:
            return
        run.gpu_type = self.cluster.nodes[new.slices[0].node].gpu_type
        run.batch = new.batch
        if run.learner is not None and run.batch is None:
            run.batch = first_batch(run.learner.limits, new.workers)
        run.restart_left_s = run.restart_s
        if run.first_start_s is None:
            run.first_start_s = self.now_s
            if self.physics.first_start_s is not None:
                run.restart_left_s = self.physics.first_start_s
            run.restart_left_s += run.arrival.staging_s + self._data_s(run.arrival, new)
            run.restart_left_s += run.arrival.profile_s if self.policy.needs.profile else 0.0
            if run.server_learner is not None and run.arrival.server_training is not None:
                run.restart_left_s += run.arrival.server_training.profiling_s
        else:
            run.restarts += 1
            if resumes and run.arrival.resume_s is not None:
                run.restart_left_s = run.arrival.resume_s
        run.training_since_s, run.saved_work = self.now_s, run.done
        run.open_span(1.0)

    def _data_s(self, arrival: Arrival, grant: Grant) -> float:
        """Seconds until the job's data have reached the farthest of the nodes granted; all are filled at once."""
        zones = {self.cluster.nodes[node].zone for node in grant.nodes}
        return max(self.cluster.staging_s(arrival.data_zone, zone, arrival.data_gb) for zone in zones)

    def _interfere(self, changed: list[JobRun]) -> list[JobRun]:
        """Slow down jobs that share nodes or cores with others; all whose events must be set anew."""
        if self.physics.interference <= 0.0 and self.physics.cores is None:
            return changed
        share = self.physics.share(sum(run.gpus for run in self.active.values() if run.grant))
        spread = {run.id: run.grant.nodes for run in self.active.values() if run.grant}
        spread = {i: nodes for i, nodes in spread.items() if len(nodes) > 1}
        crowd = Counter(node for nodes in spread.values() for node in nodes)
        touched = {run.id: run for run in changed}
        for run in self.active.values():
            shared = any(crowd[node] > 1 for node in spread.get(run.id, ()))
            slowdown = share * (1.0 - self.physics.interference if shared else 1.0)
            if slowdown != run.slowdown:
                self._advance(run, self.now_s)
                run.slowdown, run.share = slowdown, share
                touched[run.id] = run
        return list(touched.values())
