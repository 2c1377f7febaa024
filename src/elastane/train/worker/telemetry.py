"""Telemetry tells of the training: windows of steps, changes, stragglers.  Only rank 0 speaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from elastane.models.goodput import BatchLimits
from elastane.models.throughput import ThroughputParams
from elastane.train.adapt.controller import Adaptation
from elastane.train.reduce.contract import Shares
from elastane.train.reports.events import Event, Fitted, Stepped, Straggler
from elastane.train.worker.membership import Membership
from elastane.train.worker.piggyback_table import Column, Table

WINDOW_S = 1.0
FIT_EVERY_S = 10.0
SLOW = 0.5
"""A straggler computes below this part of the median rate ..."""
SLOW_STEPS = 20
"""... for so many steps in a row."""


class StragglerWatch:
    """Counts, per rank, the steps in a row that were far slower than the median."""

    def __init__(self) -> None:
        self._slow: dict[int, int] = {}

    def observe(self, rates: Sequence[float]) -> list[tuple[int, float, float]]:
        """Ranks that have just become stragglers, with their rate and the median (samples/s)."""
        middle = median(rates)
        found = []
        for rank, rate in enumerate(rates):
            slow = len(rates) > 1 and rate < SLOW * middle
            self._slow[rank] = self._slow.get(rank, 0) + 1 if slow else 0
            if self._slow[rank] == SLOW_STEPS:
                found.append((rank, rate, middle))
        return found

    def reset(self) -> None:
        """Forget the counts: ranks belong to other workers now."""
        self._slow.clear()


class Reporter:
    """Gathers steps into windows and passes events on."""

    def __init__(self, emit: Callable[[Event], None], wall: Callable[[], float]) -> None:
        self.emit = emit
        self.wall = wall
        self.metrics: dict[str, float] = {}
        self._watch = StragglerWatch()
        self.begin()

    def begin(self) -> None:
        """Time counts from here."""
        self._began_s = self.wall()
        self._fitted_s = -FIT_EVERY_S
        self._clear()

    def _clear(self) -> None:
        self._steps = self._samples = 0
        self._compute_s = self._sync_s = 0.0
        self._loss = self._losses = 0.0

    def step(self, samples: int, compute_s: float, sync_s: float) -> None:
        """One step has been applied."""
        self._steps += 1
        self._samples += samples
        self._compute_s += compute_s
        self._sync_s += sync_s

    def loss(self, total: float, count: float) -> None:
        """Losses of one step, from all workers."""
        self._loss += total
        self._losses += count

    def due(self) -> bool:
        """Whether a window is full."""
        return self._steps > 0 and self.wall() - self._began_s >= WINDOW_S

    def window(self, **facts: Any) -> None:
        """End a window; ``facts`` are the fields of ``Stepped`` that the window does not know."""
        now = self.wall()
        spent, steps = max(now - self._began_s, 1e-9), max(1, self._steps)
        self.emit(
            Stepped(
                at_s=now,
                steps=self._steps,
                step_s=spent / steps,
                compute_s=self._compute_s / steps,
                sync_s=self._sync_s / steps,
                samples_per_s=self._samples / spent,
                loss=self._loss / self._losses if self._losses else None,
                metrics=dict(self.metrics),
                **facts,
            )
        )
        self._began_s = now
        self._clear()

    def fitted(self, hints: dict[str, Any]) -> None:
        """What a scheduler wants to know, now and then."""
        now = self.wall()
        if hints["throughput"] is None or now - self._fitted_s < FIT_EVERY_S:
            return
        self._fitted_s = now
        limits = hints["limits"]
        self.emit(
            Fitted(
                now,
                ThroughputParams(**hints["throughput"]),
                hints["noise"],
                BatchLimits(
                    initial=limits["initial"],
                    maximum=limits["maximum"],
                    per_gpu_min=limits["per_worker_min"],
                    per_gpu_max=limits["per_worker_max"],
                    accumulate=limits["accumulate"],
                ),
                hints["max_profiled"],
            )
        )

    def account(
        self,
        table: Table,
        shares: Shares,
        passes_s: Sequence[float],
        sync_s: float,
        membership: Membership,
        adaptation: Adaptation | None,
    ) -> None:
        """Note one step: losses everywhere (rules look at them), times and rates by the leader."""
        loss, losses = sum(table.all(Column.LOSS)), sum(table.all(Column.LOSSES))
        if losses and adaptation is not None:
            adaptation.observe_loss(loss / losses)
        if membership.rank != 0:
            return
        self.loss(loss, losses)
        self.step(shares.total, sum(passes_s), sync_s)
        if membership.world > 1:
            per_unit = shares.total / max(1, len(shares.counts))
            times = zip(table.all(Column.UNITS), table.all(Column.COMPUTE_S), strict=True)
            rates = [units * per_unit / max(spent_s, 1e-9) for units, spent_s in times]
            self.compute_rates(rates, [membership.name_of(rank) for rank in range(membership.world)])
        if adaptation is not None and passes_s:
            key = (membership.nodes, membership.world, adaptation.batch.per_gpu)
            adaptation.profile.add(key, passes_s[:-1], passes_s[-1] + sync_s, sync_s)

    def compute_rates(self, rates: Sequence[float], names: Sequence[str]) -> None:
        """Samples per second of computation, by rank."""
        for rank, rate, middle in self._watch.observe(rates):
            self.emit(Straggler(self.wall(), names[rank], rate, middle))

    def resized(self) -> None:
        """Ranks have changed: what was counted belongs to others, and a new leader's first window begins."""
        self._watch.reset()
        if not self._steps:
            self._began_s = self.wall()
