"""A job that resizes itself and kills one of its workers, for scripts that tests run under ``elastane train``."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import elastane.train as et
from elastane.train.coordinator.control_file import control_of
from elastane.train.coordinator.login import connect
from elastane.train.coordinator.messages import TO_CLIENT, Resize

UNFROZEN = 3
"""Before this step (from 0) the first layer is unfrozen, if it was frozen: with two workers, before the others come."""
STAY = 4
"""Steps of each phase with the workers it wants."""


class Phases:
    """2 workers, then 3, then worker 1 dies and is replaced; over after a few more steps.

    Alone, it is over after ``steps``.  Everybody decides alike: what is counted is part of the job's state.
    """

    def __init__(self, job: et.Job, steps: int | None) -> None:
        self._job = job
        self._steps = steps
        self._phase = 0
        self._since = 0
        self.worlds = [0]
        job.register("phases", self)

    def stepped(self) -> bool:
        """After each step; True if this one was the last."""
        job = self._job
        if self._steps is not None:
            return job.step == self._steps
        if job.world != self.worlds[-1]:
            self.worlds.append(job.world)
        self._since += job.world == (2, 3, 3)[self._phase]
        if self._since == STAY:
            self._phase, self._since = self._phase + 1, 0
            if self._phase == 1 and job.is_leader:
                _ask_for(3)
            if self._phase == 2 and job.rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
        return self._phase == 3

    def state_dict(self) -> dict[str, Any]:
        return {"phase": self._phase, "since": self._since, "worlds": self.worlds}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._phase, self._since, self.worlds = state["phase"], state["since"], list(state["worlds"])

    def write(self, path: str, model: torch.nn.Module, **facts: Any) -> None:
        """What the leader has in the end."""
        if self._job.is_leader:
            digest = hashlib.sha256()
            for name, tensor in sorted(model.state_dict().items()):
                digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
            weights = [value for p in model.parameters() for value in p.detach().cpu().flatten().tolist()]
            where = {"device": self._job.device.type, "weights": weights}
            words = {"hash": digest.hexdigest(), "step": self._job.step, "worlds": self.worlds[1:]}
            found = {**words, **where, **facts}
            Path(path).write_text(json.dumps(found))


def _ask_for(workers: int) -> None:
    control = control_of(Path(os.environ["ELASTANE_RUN"]))
    connection = connect(control["host"], control["port"], "client", control["token"])
    connection.send(Resize(workers))
    next(connection.messages(TO_CLIENT))
    connection.close()
