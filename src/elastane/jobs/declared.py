"""``Declared`` is what an owner says about a job's training: how long it goes on, and by which batches.

It travels from the spec to every process of the job as the environment variable ``ELASTANE_DECLARED``, a JSON object
with the keys ``epochs``, ``target`` and ``batch``, each only where the owner set it.  Scripts that use
``elastane.train`` go by it; others may read it, and nothing else does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elastane.jobs.spec import JobSpec

VARIABLE = "ELASTANE_DECLARED"
"""Reserved: a submission that sets it itself is refused, and an engine writes over it."""


@dataclass(frozen=True, slots=True)
class Goal:
    """The metric that ends training; ``direction`` is ``at-least`` or ``at-most``."""

    metric: str
    value: float
    direction: str


@dataclass(frozen=True, slots=True)
class Batches:
    """Batch sizes in samples: the one that the learning rate was chosen for, and the largest (None: no limit)."""

    size: int
    max: int | None = None


@dataclass(frozen=True, slots=True)
class Declared:
    """What an owner declared; None where nothing was."""

    epochs: int | None = None
    target: Goal | None = None
    batch: Batches | None = None

    def to_json(self) -> dict[str, Any]:
        """JSON values without the keys that were not declared."""
        values: dict[str, Any] = {}
        if self.epochs is not None:
            values["epochs"] = self.epochs
        if self.target is not None:
            goal = self.target
            values["target"] = {"metric": goal.metric, "value": goal.value, "direction": goal.direction}
        if self.batch is not None:
            most = {} if self.batch.max is None else {"max": self.batch.max}
            values["batch"] = {"size": self.batch.size, **most}
        return values

    def environment(self) -> dict[str, str]:
        """The variable that carries it.  It is always set, so that nobody else's setting passes for the owner's."""
        return {VARIABLE: json.dumps(self.to_json(), sort_keys=True)}


def declared_by(spec: JobSpec) -> Declared:
    """What a spec declares.  A fixed batch is one whose largest size is its size."""
    goal, batch = spec.target, spec.batch
    return Declared(
        spec.epochs,
        Goal(goal.metric, goal.value, "at-most" if goal.falls else "at-least") if goal else None,
        Batches(batch.size, batch.size if batch.fixed else batch.max) if batch else None,
    )


def declared_from_json(values: Mapping[str, Any]) -> Declared:
    """The inverse of ``Declared.to_json``."""
    goal, batch = values.get("target"), values.get("batch")
    return Declared(
        values.get("epochs"),
        Goal(goal["metric"], goal["value"], goal["direction"]) if goal else None,
        Batches(batch["size"], batch.get("max")) if batch else None,
    )
