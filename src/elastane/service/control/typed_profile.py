"""Step times of one job by accelerator type, and the one model that is fitted to all of them.

A type's name is empty where times were taken before anybody knew it: it is the type of whoever asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from elastane.models.goodput import BatchLimits, GoodputModel
from elastane.models.history import Memory
from elastane.models.online import Learner, refit
from elastane.train.adapt.profile import Key, StepProfile, Times

UNNAMED = ""


class _Table(StepProfile):
    """A table of times on one type, which is fitted together with those of other types and jobs."""

    def fitted(self) -> None:
        """A model was made of what the table holds now."""
        self._fitted = {key: times.step_s for key, times in self.table.items()}

    def unfitted(self) -> None:
        """Whatever was made of it is worth nothing any more."""
        self._fitted = {}


class TypedProfile:
    """Tables by accelerator type, what past jobs tell, and the model of the last fit."""

    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}
        self._memory: Memory | None = None
        self._model: GoodputModel | None = None

    def recall(self, memory: Memory, accelerator: str) -> None:
        """Take what past jobs tell into every fit from now on; ``accelerator`` is what has no name yet."""
        self.name(accelerator)
        self._memory, self._model = memory, None
        for table in self._tables.values():
            table.unfitted()

    def name(self, accelerator: str) -> None:
        """Say of which type the times are that have no name yet."""
        unnamed = self._tables.get(UNNAMED)
        if accelerator and unnamed is not None:
            del self._tables[UNNAMED]
            self._tables.setdefault(accelerator, unnamed).unfitted()

    def restart(self) -> None:
        """The next step is a first one: after a start, a resize or another batch."""
        for table in self._tables.values():
            table.restart()

    def add(self, accelerator: str, key: Key, plain_s: list[float], last_s: float, sync_s: float) -> None:
        """One step on this type: seconds of passes without sync, of the synchronising one, and of its sync."""
        if accelerator:
            self.name(accelerator)
        if accelerator not in self._tables:
            self._tables[accelerator] = _Table()
        for kind, table in self._tables.items():
            if kind != accelerator:
                table.restart()
        self._tables[accelerator].add(key, plain_s, last_s, sync_s)

    def knows(self, accelerator: str, key: Key) -> bool:
        """Whether a configuration was seen on this type."""
        table = self._tables.get(accelerator) or self._tables.get(UNNAMED)
        return table is not None and key in table.table

    @property
    def size(self) -> int:
        """Configurations seen on all types."""
        return sum(len(table.table) for table in self._tables.values())

    @property
    def tables(self) -> Mapping[str, Mapping[Key, Times]]:
        """What was seen, by type."""
        return {kind: table.table for kind, table in self._tables.items() if table.table}

    @property
    def stale(self) -> bool:
        """Whether a configuration is new, or its time has moved, since the last fit."""
        return any(table.stale for table in self._tables.values())

    def learner(self, limits: BatchLimits) -> Learner:
        """A learner that has seen all tables."""
        learner = Learner(limits, self._memory)
        for kind, rows in sorted(self.tables.items()):
            for (nodes, workers, per_worker), times in sorted(rows.items()):
                learner.observe(kind, nodes, workers, per_worker, times.gradient_s, times.step_s)
        return learner

    def fitted(self, learner: Learner) -> None:
        """Take the fit that was made of these tables."""
        self._model = learner.model()
        for table in self._tables.values():
            table.fitted()

    def model(self, limits: BatchLimits, noise: float) -> GoodputModel | None:
        """What is known now, fitted again if needed; None before anything was measured."""
        if self.stale:
            learner = self.learner(limits)
            refit([learner])
            self.fitted(learner)
        return replace(self._model, limits=limits, noise=noise) if self._model is not None else None

    def to_json(self) -> dict[str, Any]:
        """The tables as JSON values."""
        return {"tables": {kind: table.state_dict()["table"] for kind, table in sorted(self._tables.items())}}

    def from_json(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``to_json``, also for the one table that was stored when a cluster had one type."""
        stored = state["tables"] if "tables" in state else {UNNAMED: state["table"]}
        self._tables = {}
        for kind, rows in stored.items():
            if rows:
                self._tables[kind] = _Table()
                self._tables[kind].load_state_dict({"table": rows})
        self._model = None
