"""A very small deterministic world: jobs of constant speed under decide and lower, one event after another.

It is no simulator: nothing is learned, moving costs nothing.  It exists so that policies can be tested over time
without the rooms above them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from elastane.cluster import Node
from elastane.policies.contract import Policy
from elastane.policies.view import View
from elastane.scheduling.changes import End, Refuse, Renew, Suspend, changes
from elastane.scheduling.decide import Decision, decide
from elastane.scheduling.facts import Situation
from elastane.scheduling.views import view_of
from elastane.testing.policies.jobs import Run, Trial
from elastane.testing.policies.variants import through_json

_INSTANT_S = 1e-6


class World:
    """A policy, machines and jobs; ``outages`` are (node, down, up) times.

    ``fresh`` takes a new copy of the policy for every decision, as if the service had just been restarted;
    ``store`` is what memory goes through between two decisions.
    """

    def __init__(
        self,
        policy: Policy,
        nodes: Iterable[Node],
        trials: Sequence[Trial],
        *,
        outages: Sequence[tuple[str, float, float]] = (),
        min_run_s: float = 0.0,
        fresh: bool = False,
        store: Callable[[Any], Any] = through_json,
    ) -> None:
        self.policy, self.fresh, self.store = policy, fresh, store
        self.nodes = {node.id: node for node in nodes}
        self.names = [trial.id for trial in trials]
        self.now_s = 0.0
        self.finished_s: dict[str, float] = {}
        self.started_s: dict[str, float] = {}
        self.turned_away: dict[str, str] = {}
        self._coming = sorted(trials, key=lambda trial: (trial.submit_s, trial.id))
        self._outages, self._min_run_s = outages, min_run_s
        self._runs: dict[str, Run] = {}
        self._service: list[float] = []
        self._memory: Any = None
        self._wakes: tuple[float, ...] = ()

    def run(self, until_s: float) -> Iterator[Decision]:
        """Every decision until all jobs have finished or the time is over."""
        while (self._runs or self._coming) and (now_s := self._next_s()) <= until_s:
            trigger = self._move_to(now_s)
            if trigger and self._runs:
                yield self._decide(trigger)

    def _next_s(self) -> float:
        times = [trial.submit_s for trial in self._coming[:1]]
        times += [when for _, *both in self._outages for when in both if when > self.now_s]
        if self._runs:
            times += [wake for wake in self._wakes if wake > self.now_s + _INSTANT_S]
            times += [self.now_s + run.left / run.rate for run in self._runs.values() if run.grant and run.rate]
            times.append(self._next_round_s())
        return min(times, default=math.inf)

    def _next_round_s(self) -> float:
        period_s = self.policy.needs.period_s
        return (math.floor(self.now_s / period_s + 1e-9) + 1) * period_s if period_s else math.inf

    def _move_to(self, now_s: float) -> str:
        """Let time pass; the answer is what the policy wants to be asked for, if anything."""
        needs, trigger = self.policy.needs, ""
        if now_s >= self._next_round_s() - _INSTANT_S:
            trigger = "tick"
        elif any(abs(wake - now_s) < _INSTANT_S for wake in self._wakes):
            trigger = "timer"
        for run in self._runs.values():
            run.pass_time(now_s - self.now_s)
        self.now_s = now_s
        if self._retire() and needs.on_finish:
            trigger = "finish"
        if self._break() and needs.on_finish:
            trigger = "node"
        if self._arrive() and needs.on_arrival:
            trigger = "arrival"
        return trigger

    def _retire(self) -> bool:
        done = [i for i, run in self._runs.items() if run.grant and run.left <= _INSTANT_S * run.rate]
        for job_id in done:
            self._service.append(self._runs.pop(job_id).service_gpu_s)
            self.finished_s[job_id] = self.now_s
        return bool(done)

    def _break(self) -> bool:
        """Take grants away from jobs whose node went down just now; they keep their work and their ledger."""
        changed = [node for node, *times in self._outages if self.now_s in times]
        for run in self._runs.values():
            if run.grant and not set(run.grant.nodes) <= self._usable().keys():
                run.change(None, self.now_s)
        return bool(changed)

    def _usable(self) -> dict[str, Node]:
        down = {node for node, down_s, up_s in self._outages if down_s <= self.now_s < up_s}
        return {i: node for i, node in self.nodes.items() if i not in down}

    def _arrive(self) -> bool:
        new = [trial for trial in self._coming if trial.submit_s <= self.now_s]
        del self._coming[: len(new)]
        self._runs.update((trial.id, Run(trial, trial.work)) for trial in new)
        return bool(new)

    @property
    def jobs(self) -> Mapping[str, Run]:
        """Jobs that have arrived and are still there."""
        return self._runs

    def view(self, trigger: str = "tick") -> View:
        """What the policy sees now."""
        needs = self.policy.needs
        situation = Situation(
            now_s=self.now_s,
            nodes=self._usable(),
            known=self.nodes,
            trigger=trigger,
            memory=self._memory,
            finished_service_gpu_s=self._service,
            min_run_s=self._min_run_s,
        )
        return view_of(
            situation, {job: run.view(self.now_s, needs) for job, run in self._runs.items()}, needs.info
        )

    def _decide(self, trigger: str) -> Decision:
        policy = replace(self.policy) if self.fresh else self.policy
        decision = decide(policy, self.view(trigger))
        self._memory, self._wakes = self.store(decision.plan.memory), decision.plan.wake_s
        for change in changes({job: run.grant for job, run in self._runs.items()}, decision):
            run = self._runs[change.job]
            if isinstance(change, Refuse | End):
                self.turned_away[change.job] = change.reason
                del self._runs[change.job]
            elif isinstance(change, Renew):
                run.grant = change.grant
            elif isinstance(change, Suspend):
                run.change(None, self.now_s)
            else:
                run.change(change.grant, self.now_s)
                self.started_s.setdefault(change.job, self.now_s)
        for job in decision.downgraded:
            if job in self._runs:
                self._runs[job].downgraded = True
        return decision
