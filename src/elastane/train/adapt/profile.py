"""Measured step times of one job, and the goodput model they are fitted to.

Keyed by (nodes N, workers K, samples per worker and pass m).  A step has s passes that do not synchronise
and one that does:

    T_grad = (Σ plain passes + Σ (synchronising pass − its sync)) / number of passes of both kinds
    T_iter = Σ synchronising passes / their number                               (a step with s = 0)

The first step after a start, a resize or another batch is slow and not counted.  Only the leader fits; the
table is part of the checkpoint, so that what was learned outlives the job's processes.
Reference: Qiao et al., Pollux, OSDI 2021, section 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from elastane.models.goodput import BatchLimits, GoodputModel
from elastane.models.history.prior import Memory
from elastane.models.online import Learner, refit
from elastane.models.throughput import TINY_S
from elastane.train.errors import TrainError

_DRIFT = 0.05  # a mean that moved by this much since the last fit deserves another
_OLDEST = 2000  # steps; a machine that became slower must not be outvoted by its past for ever

Key = tuple[int, int, int]
"""Nodes, workers, samples per worker and pass."""


@dataclass(frozen=True, slots=True)
class Times:
    """Sums over the steps of one configuration."""

    plain_s: float = 0.0
    plain_count: int = 0
    last_s: float = 0.0
    sync_s: float = 0.0
    last_count: int = 0

    def add(self, plain_s: Sequence[float], last_s: float, sync_s: float) -> Times:
        """The sums after one more step; the oldest steps fade when there are very many."""
        old = self if self.last_count < _OLDEST else self._halved()
        return Times(
            old.plain_s + sum(plain_s),
            old.plain_count + len(plain_s),
            old.last_s + last_s,
            old.sync_s + min(sync_s, last_s),
            old.last_count + 1,
        )

    @property
    def gradient_s(self) -> float:
        """T_grad: one pass without synchronisation."""
        pure_s = self.plain_s + self.last_s - self.sync_s
        return max(pure_s / (self.plain_count + self.last_count), TINY_S)

    @property
    def step_s(self) -> float:
        """T_iter of a step with a single pass."""
        return max(self.last_s / self.last_count, TINY_S)

    def to_json(self) -> dict[str, float]:
        """The sums as JSON values; every job's are written every few seconds, so it is spelt out."""
        return {
            "plain_s": self.plain_s,
            "plain_count": self.plain_count,
            "last_s": self.last_s,
            "sync_s": self.sync_s,
            "last_count": self.last_count,
        }

    def _halved(self) -> Times:
        ratio = (self.last_count // 2) / self.last_count
        plain_count = round(self.plain_count * ratio)
        plain_s = self.plain_s * plain_count / self.plain_count if self.plain_count else 0.0
        return Times(plain_s, plain_count, self.last_s * ratio, self.sync_s * ratio, self.last_count // 2)


class StepProfile:
    """The table of times, and the model of the last fit."""

    def __init__(self) -> None:
        self.table: dict[Key, Times] = {}
        self._current: Key | None = None
        self._fitted: dict[Key, float] = {}
        self._model: GoodputModel | None = None
        self._memory: Memory | None = None
        self.gpu_type = ""
        """Under which name the accelerator is remembered; here it does not matter."""

    def recall(self, memory: Memory | None, gpu_type: str) -> None:
        """Take what past jobs tell into every fit from now on."""
        self._memory, self.gpu_type = memory, gpu_type
        self._fitted, self._model = {}, None

    def restart(self) -> None:
        """The next step is a first one: after a start, a resize or another batch."""
        self._current = None

    def add(self, key: Key, plain_s: Sequence[float], last_s: float, sync_s: float) -> None:
        """One step: seconds of each pass without sync, of the synchronising pass, and of its exposed sync."""
        first = key != self._current
        self._current = key
        if not first:
            self.table[key] = self.table.get(key, Times()).add(plain_s, last_s, sync_s)

    @property
    def stale(self) -> bool:
        """Whether a configuration is new, or its time has moved, since the last fit."""
        return any(
            abs(times.step_s - self._fitted.get(key, 0.0)) > _DRIFT * times.step_s
            for key, times in self.table.items()
        )

    def learner(self, limits: BatchLimits) -> Learner:
        """A learner that has seen the whole table."""
        learner = Learner(limits, self._memory)
        for (nodes, workers, per_worker), times in sorted(self.table.items()):
            learner.observe(self.gpu_type, nodes, workers, per_worker, times.gradient_s, times.step_s)
        return learner

    def model(self, limits: BatchLimits, noise: float) -> GoodputModel | None:
        """What is known now, fitted again if needed; None before anything was measured."""
        if self.stale:
            learner = self.learner(limits)
            refit([learner])
            self._model = learner.model()
            self._fitted = {key: times.step_s for key, times in self.table.items()}
        return replace(self._model, limits=limits, noise=noise) if self._model is not None else None

    def state_dict(self) -> dict[str, Any]:
        """The table as JSON values."""
        return {"table": [[*key, times.to_json()] for key, times in sorted(self.table.items())]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``; the model is fitted anew when it is asked for."""
        try:
            table = {
                (int(nodes), int(workers), int(samples)): _times(row)
                for nodes, workers, samples, row in state["table"]
            }
        except (KeyError, TypeError, ValueError) as error:
            raise TrainError(f"this is not a saved profile: {error!r}") from error
        self.table, self._fitted, self._model = table, {}, None
        self.restart()


def _times(row: Mapping[str, Any]) -> Times:
    return Times(
        float(row["plain_s"]),
        int(row["plain_count"]),
        float(row["last_s"]),
        float(row["sync_s"]),
        int(row["last_count"]),
    )
