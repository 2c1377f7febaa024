"""Harms workers of a running job: in peace, or while a change of members is under way."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.harness import Stuck
from benchmarks.train.live import PATIENCE_S, LiveJob

_LOOK_S = 0.01


@dataclass(frozen=True, slots=True)
class Harm:
    """One worker killed or frozen, by the monotonic clock and by the calendar."""

    in_switch: bool
    leader: bool
    member: bool
    at_s: float
    wall_s: float


class Assassin:
    """Chooses victims and moments in one job of ``workers``; ``over`` once the job has come to ``last_step``."""

    def __init__(
        self, job: LiveJob, workers: int, last_step: int, chance: random.Random, signal_number: int
    ) -> None:
        self.harms: list[Harm] = []
        self.over = False
        self._job = job
        self._workers = workers
        self._last_step = last_step
        self._chance = chance
        self._signal = signal_number

    def in_peace(self) -> None:
        """Everybody trains and has done so for some steps."""
        status = self._until(lambda s: len(s["members"]) == self._workers)
        goal = int(status["step"]) + self._chance.randint(2, 20)
        self._harm(self._until(lambda s: s["step"] >= goal), in_switch=False)

    def while_preparing(self) -> None:
        """A newcomer is about to join: one that replaces an earlier victim, or one that is asked for now."""
        status = self._until(lambda s: _joins(s) or len(s["members"]) == self._workers)
        if not _joins(status) and not self.over:
            self._job.resize(self._workers + 1)
            self._until(_joins)
        time.sleep(self._chance.uniform(0.0, 0.1))
        self._harm(self._job.status(), in_switch=True)
        self._again_as_many()

    def after_asking(self) -> None:
        """One worker more or less has just been asked for."""
        self._until(lambda s: len(s["members"]) == self._workers)
        if not self.over:
            self._job.resize(self._workers + self._chance.choice([-1, 1]))
            time.sleep(self._chance.uniform(0.0, 0.5))
        self._harm(self._job.status(), in_switch=True)
        self._again_as_many()

    def _again_as_many(self) -> None:
        if not self._job.over:
            self._job.resize(self._workers)

    def _until(self, condition: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
        give_up_s = time.monotonic() + PATIENCE_S
        while True:
            status = self._job.status()
            self.over = self.over or self._job.over or int(status["step"]) > self._last_step
            if self.over or condition(status):
                return status
            if time.monotonic() > give_up_s:
                raise Stuck(f"{self._job.run} does not go on; {status}; {self._job.words()}")
            time.sleep(_LOOK_S)

    def _harm(self, status: Mapping[str, Any], *, in_switch: bool) -> None:
        phases = _phases(status)
        members = [name for name in status["members"] if phases.get(name) == "member"]
        able = [*members, *(name for name, phase in phases.items() if in_switch and phase == "joining")]
        # With its last member a job loses what it has not saved: that is not what is measured here.
        if self.over or len(members) < 2:
            return
        victim = self._chance.choice(able)
        leads = status["members"][0] == victim
        harm = Harm(in_switch, leads, victim in members, time.monotonic(), time.time())
        try:
            os.kill(status["workers"][victim]["pid"], self._signal)
        except ProcessLookupError:
            return  # it has just left by itself
        self.harms.append(harm)
        self._until(lambda s: victim not in s["workers"] and s["step"] > status["step"])


def _phases(status: Mapping[str, Any]) -> dict[str, str]:
    return {name: worker["phase"] for name, worker in status["workers"].items() if worker["pid"]}


def _joins(status: Mapping[str, Any]) -> bool:
    return "joining" in _phases(status).values()
