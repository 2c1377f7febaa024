"""Tiresias (NSDI'19): least attained service in two dimensions, GPUs × time, discretised into queues.

No durations are needed.  Service a_j = GPUs × seconds held decides the queue; queues are served in turn, inside
a queue first come, first served (LAS) or by Gittins index when service of past jobs is known.  Jobs whose model has
a dominating tensor must stand on the fewest nodes; others take any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from elastane.models.speed import FloatArray
from elastane.policies.contract import Needs, Policy
from elastane.policies.lowering.order import place_order
from elastane.policies.options import OptionError
from elastane.policies.plan import Fill, Order, Plan, Spread
from elastane.policies.view import Info, JobState, JobView, View


def gittins_index(attained: float, quantum: float, samples: FloatArray) -> float:
    """Returns P(S − a ≤ Δ | S > a) / E[min(S − a, Δ) | S > a] over sorted total services S of past jobs.

    0 when no past job lasted longer than ``attained``.
    """
    longer = samples[np.searchsorted(samples, attained, side="right") :]
    if longer.size == 0:
        return 0.0
    left = longer - attained
    return float(np.mean(left <= quantum) / np.mean(np.minimum(left, quantum)))


_SLACK_S = 1e-6


@dataclass(frozen=True)
class _State:
    """One job's state in the policy's memory: queue, and service and time held before the last promotion."""

    queue: int = 0
    forgiven_gpu_s: float = 0.0
    forgiven_s: float = 0.0
    waiting_since_s: float | None = None

    def as_json(self) -> list[float | int | None]:
        return [self.queue, self.forgiven_gpu_s, self.forgiven_s, self.waiting_since_s]


@dataclass(frozen=True)
class Tiresias(Policy):
    """Discretised 2D-LAS or 2D-Gittins.

    Attributes:
        thresholds: Upper ends of the queues but the last, in GPU seconds, separated by ``/``.  Published values
            differ by a factor of 18 (3250, 18000, 57600); 57600 is the one Pollux's evaluation tuned.
        index: ``las`` or ``gittins``.
        fifo: Order inside a queue: ``arrival`` (as in Pollux's evaluation) or ``start`` (first start, as the
            paper words it).
        promote: PROMOTEKNOB; a job that waited this many times its time held returns to the first queue.  0 is off.
        pack_limit: Skew above which a job is consolidated; below it takes fragments; unknown skew packs loosely.
    """

    thresholds: str = "57600"
    index: str = "las"
    fifo: str = "arrival"
    promote: float = 0.0
    pack_limit: float = 0.5

    name: ClassVar[str] = "tiresias"
    title: ClassVar[str] = "Tiresias"
    paper: ClassVar[str] = "Gu et al., NSDI'19"
    needs: ClassVar[Needs] = Needs(info=Info.HISTORY | Info.SKEW)

    def __post_init__(self) -> None:
        if self.index not in ("las", "gittins"):
            raise OptionError(f"tiresias: index must be las or gittins, not {self.index!r}")
        if self.fifo not in ("arrival", "start"):
            raise OptionError(f"tiresias: fifo must be arrival or start, not {self.fifo!r}")
        if not 0.0 <= self.promote < float("inf"):
            raise OptionError(f"tiresias: promote must be 0 (off) or more, not {self.promote}")
        if not 0.0 <= self.pack_limit <= 1.0:
            raise OptionError(f"tiresias: pack_limit is a share between 0 and 1, not {self.pack_limit}")
        limits = self.limits
        if list(limits) != sorted(limits) or any(limit <= 0 for limit in limits):
            raise OptionError(f"tiresias: thresholds must be positive and increasing, not {self.thresholds!r}")

    @cached_property
    def limits(self) -> tuple[float, ...]:
        """Returns the queue thresholds in GPU seconds, parsed from the option."""
        try:
            return tuple(float(part) for part in str(self.thresholds).split("/"))
        except ValueError:
            raise OptionError(
                f"tiresias: thresholds are numbers separated by '/', not {self.thresholds!r}"
            ) from None

    def decide(self, view: View) -> Plan:
        """Updates queues, orders jobs by them, and asks to be woken at the next demotion or promotion."""
        memory = view.memory or {}
        states = {
            job.id: self._update(job, _load(memory.get(job.id)), view.now_s) for job in view.jobs.values()
        }
        order = sorted(view.jobs.values(), key=self._key(view, states))
        spreads = {job.id: spread for job in order if (spread := self._spread(job)) is not Spread.EMPTIEST}
        intent = Order(tuple(job.id for job in order), Fill.SKIP, Spread.EMPTIEST, spreads)
        runs = place_order(intent, view, {})  # queues change only for those who really find a place
        wakes = [
            when for job in order for when in self._changes(job, states[job.id], view.now_s, job.id in runs)
        ]
        return Plan(
            intent,
            wake_s=(min(wakes),) if wakes else (),
            memory={i: state.as_json() for i, state in states.items()},
        )

    def _update(self, job: JobView, state: _State, now_s: float) -> _State:
        """Moves a job between queues: demotion by attained service, promotion by waiting."""
        running = job.grant is not None
        waiting_since = None if running else state.waiting_since_s
        if not running and waiting_since is None and job.state is JobState.SUSPENDED:
            waiting_since = job.ledger.last_change_s if job.ledger.last_change_s is not None else now_s
        queue, forgiven, forgiven_s = state.queue, state.forgiven_gpu_s, state.forgiven_s
        service = job.ledger.service_at(now_s) - forgiven
        while queue < len(self.limits) and service >= self.limits[queue] - _slack(job):
            queue += 1
        if self.promote > 0 and queue > 0 and waiting_since is not None:
            held_s = job.ledger.held_at(now_s) - forgiven_s
            if now_s - waiting_since >= self.promote * held_s - _SLACK_S:
                # Both service and waiting time start afresh, or the job would be demoted again at once.
                queue, forgiven, forgiven_s = 0, job.ledger.service_at(now_s), job.ledger.held_at(now_s)
                waiting_since = now_s
        return _State(queue, forgiven, forgiven_s, waiting_since)

    def _key(
        self, view: View, states: Mapping[str, _State]
    ) -> Callable[[JobView], tuple[tuple[float, ...], str]]:
        samples = np.sort(np.array(view.history)) if self.index == "gittins" else np.array([])

        def key(job: JobView) -> tuple[float, ...]:
            state = states[job.id]
            start = job.ledger.first_start_s if self.fifo == "start" else job.submit_s
            fifo = (start is None, start if start is not None else job.submit_s, job.submit_s)
            if self.index == "las" or samples.size == 0:
                return (state.queue, *fifo)
            attained = job.ledger.service_at(view.now_s) - state.forgiven_gpu_s
            quantum = self.limits[min(state.queue, len(self.limits) - 1)]
            return (state.queue, -gittins_index(attained, quantum, samples), *fifo)

        return lambda job: (key(job), job.id)

    def _spread(self, job: JobView) -> Spread:
        if job.skew is None:
            return Spread.EMPTIEST
        return Spread.CONSOLIDATED if job.skew > self.pack_limit else Spread.FRAGMENTS

    def _changes(self, job: JobView, state: _State, now_s: float, runs: bool) -> Iterator[float]:
        """Yields the times at which this job would change queue if nothing else happened."""
        if runs and state.queue < len(self.limits):
            left = self.limits[state.queue] - (job.ledger.service_at(now_s) - state.forgiven_gpu_s)
            yield now_s + max(left, 0.0) / job.request.gpus_of(job.request.workers)
        if not runs and self.promote > 0 and state.queue > 0:
            # A job that stops only now begins to wait now.
            since_s = now_s if state.waiting_since_s is None else state.waiting_since_s
            due_s = since_s + self.promote * (job.ledger.held_at(now_s) - state.forgiven_s)
            if due_s > now_s + _SLACK_S:
                yield due_s


def _slack(job: JobView) -> float:
    """Returns the service of a microsecond: smaller differences are rounding and must not cost another decision."""
    return _SLACK_S * max(job.ledger.gpus, 1)


def _load(saved: list[float | int | None] | None) -> _State:
    if saved is None:
        return _State()
    queue, forgiven, forgiven_s, since = saved
    return _State(int(queue or 0), float(forgiven or 0.0), float(forgiven_s or 0.0), since)
