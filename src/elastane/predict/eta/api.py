"""Provides the ETA for a training loop of one's own.

    eta = ETA(Plan(samples=50_000, epochs=90, batch=128), state=Path("eta.json"))
    eta.update("train", step, began_s, ended_s)
    eta.update("validation", step, began_s, ended_s, value=loss)
    eta.remaining()                                 # Interval | Unknown

With ``predicted`` (``predict.step(...).predicted``) there is an answer before the first step, and after 50 steps the
prediction is compared with what they took, and its error added to the local history that later predictions read.

Times are of one clock within a session, best a monotonic one.  The state file holds what a resumed run cannot measure
again: the values of earlier validations, how often they come, and settings that changed on the way.  It is JSON,
and written whole or not at all.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from elastane.errors import ElastaneError
from elastane.kit.atomic_files import write_atomically
from elastane.predict.eta.engine import EtaEngine
from elastane.predict.eta.plan import Plan
from elastane.predict.eta.types import Doing, Goal, Span
from elastane.predict.interval import Interval, Unknown
from elastane.predict.outcomes import COMPARED, Predicted, remember
from elastane.predict.profile import history_path
from elastane.suggest import did_you_mean

_VERSION = 1
_ALSO = {"val": Doing.VALIDATION, "ckpt": Doing.CHECKPOINT, "data_stall": Doing.STALL, "comm": Doing.TRAIN}


class ETA:
    """Predicts the time left of one training from the spans it reports; keeps a state file across sessions."""

    def __init__(
        self,
        plan: Plan | Goal,
        state: Path | None = None,
        predicted: Predicted | None = None,
        history: Path | None = None,
    ) -> None:
        if predicted is not None and isinstance(plan, Plan) and plan.workers * plan.accumulation > 1:
            raise ElastaneError(
                "a step was predicted of one worker and one batch; this plan's steps are of several"
            )
        self._plan, self._path = plan, state
        self._predicted, self._history = predicted, history or history_path()
        self._kept = _read(state)
        for change in self._kept["changes"]:
            self._plan = _rebased(self._plan, *change)
        self._engine = EtaEngine(self._goal)
        self._step: float | None = None

    def update(
        self,
        kind: str,
        step: float,
        began_s: float,
        ended_s: float,
        *,
        work: float | None = None,
        value: float | None = None,
    ) -> None:
        """Reports one span: ``step`` are complete steps of all sessions at its end, ``work`` other units (tokens).

        With ``work``, the goal counts the same, and the state file remembers how much was done.
        """
        doing = _doing(kind)
        if self._step is None:
            self._begin(step - 1.0 if doing is Doing.TRAIN else step, work is not None)
        assert self._step is not None
        if doing is Doing.TRAIN and step < self._step:  # taken again after a restore
            self._engine.go_to(self._engine.done - (0.0 if work is not None else self._step - step + 1.0))
            self._step = step - 1.0
        steps = step - self._step if doing is Doing.TRAIN else 0.0
        if doing is Doing.TRAIN and steps <= 0.0:
            return
        done = steps if work is None else work
        self._engine.observe(Span(doing, began_s, ended_s, done, max(int(steps), 1)))
        self._step = step
        if work is None:
            self._compare()
        if value is not None:
            self._engine.measured(value)
        if doing is not Doing.TRAIN or value is not None:
            self.save()

    def rebase(self, batch: int | None = None, workers: int | None = None) -> None:
        """Changes batch or number of workers from here on."""
        self._kept["changes"].append([self._step or 0.0, batch, workers])
        self._plan, self._predicted = _rebased(self._plan, *self._kept["changes"][-1]), None
        self._engine.rebase(self._goal)
        self.save()

    def remaining(self) -> Interval | Unknown:
        """Returns the seconds left as of the last span."""
        return self._engine.remaining()

    def end(self, outcome: str = "finished") -> None:
        """Marks the run as ended; later estimates are exact."""
        self._engine.end(outcome)

    @property
    def engine(self) -> EtaEngine:
        """The engine, for more details: rates, elapsed times, the forecast of the stop."""
        return self._engine

    def save(self) -> None:
        """Writes the state file, if there is one."""
        self._kept["done"] = self._engine.done
        self._kept["values"] = [list(each) for each in self._engine.values.items()]
        if self._path is not None:
            write_atomically(self._path, json.dumps(self._kept))

    @property
    def _goal(self) -> Goal:
        goal = self._plan.goal if isinstance(self._plan, Plan) else self._plan
        return goal if self._predicted is None else replace(goal, work_s=self._predicted.step_s)

    def _compare(self) -> None:
        """Compares the prediction with the measured steps, once a session, and saves the outcome."""
        if self._predicted is None or self._engine.steps < COMPARED:
            return
        step_s = self._engine.step_s
        if isinstance(step_s, Interval):
            remember(self._history, self._predicted.outcome(step_s.middle, time.time()))
            self._predicted = None

    def _begin(self, step: float, by_work: bool) -> None:
        """Begins a session; validations of earlier ones count, as far as their work was not lost."""
        self._step, start = step, self._kept["done"] if by_work else step
        if by_work and self._predicted is not None:  # of steps, which are not what the goal counts
            self._predicted = None
            self._engine.goal = self._goal
        self._engine.values = dict(self._kept["values"])
        self._engine.resume(start)


def _rebased(plan: Plan | Goal, done: float, batch: int | None, workers: int | None) -> Plan | Goal:
    return plan.rebased(done, batch, workers) if isinstance(plan, Plan) else plan


def _doing(kind: str) -> Doing:
    known = {**{each.value: each for each in Doing}, **_ALSO}
    if kind not in known:
        raise ElastaneError(f"there is no doing {kind!r}{did_you_mean(kind, known)}")
    return known[kind]


def _read(path: Path | None) -> dict[str, Any]:
    fresh: dict[str, Any] = {"version": _VERSION, "done": 0.0, "values": [], "changes": []}
    if path is None or not path.exists():
        return fresh
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["version"] != _VERSION:
            raise ElastaneError(f"{path} was written by another version of Elastane")
        return {
            "version": _VERSION,
            "done": float(found["done"]),
            "values": [[float(at), float(value)] for at, value in found["values"]],
            "changes": [[float(at), batch, workers] for at, batch, workers in found["changes"]],
        }
    except (ValueError, KeyError, TypeError) as error:
        raise ElastaneError(f"{path} is no state of an ETA: {error}") from None
