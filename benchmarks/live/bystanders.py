"""Jobs of other tenants beside hostile ones, and whether anything was done to them."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.live.jobs import laps_of, lines_of, short, training
from benchmarks.live.system import until
from elastane.client import Client
from elastane.train.reports.event_file import load_run
from elastane.train.reports.events import Resized, WorkerLost

TENANT = "vision"
LOOK_S = 0.2
"""Between two questions: whoever asks more often is told to wait."""
_SHORT_S = 60.0
_SIZES = {"single": {"min": 1, "max": 1}, "pair": {"min": 2, "max": 2}}


def ended(client: Client) -> dict[str, str]:
    """Jobs of this client's that have ended, and how."""
    return {job.id: job.state for job in client.jobs("ended", limit=10_000)}


@dataclass(slots=True)
class Bystanders:
    """Two jobs that train all the time, and short ones in each batch."""

    home: Path
    folder: Path
    python: str = sys.executable
    trained: dict[str, str] = field(default_factory=dict)
    harm: list[str] = field(default_factory=list)
    _short: dict[str, str] = field(default_factory=dict)

    def begin(self, client: Client) -> None:
        """Hand the training ones in and wait until they train."""
        for name, size in _SIZES.items():
            spec = training(self.folder / name, size, every_s=600.0, pause_s=0.2, python=self.python)
            self.trained[name] = client.submit(spec, directory="/").id
        self.train_on()

    def train_on(self) -> None:
        """Wait for steps made from now on."""
        for name, size in _SIZES.items():
            before = len(laps_of(self.folder / name))
            until(
                lambda name=name, size=size, before=before: (  # type: ignore[misc]
                    len(laps_of(self.folder / name)) > before + 2 * size["min"]
                ),
                f"steps of the {name} job",
            )

    def add_short(self, client: Client, batch: int, count: int = 3) -> None:
        """Jobs that begin and end while the hostile ones are there."""
        for number in range(count):
            label = f"short-{batch}-{number}"
            self._short[label] = client.submit(
                short(self.folder, label, 0.5 + number, python=self.python), directory="/"
            ).id

    def judge_short(self, client: Client) -> None:
        """All of them have succeeded, having run once."""
        give_up_s = time.monotonic() + _SHORT_S
        while not (over := ended(client)).keys() >= set(self._short.values()) and time.monotonic() < give_up_s:
            time.sleep(LOOK_S)
        for label, job in self._short.items():
            state = over.get(job, "still there")
            begun, done = lines_of(self.folder, label, "begin"), lines_of(self.folder, label, "end")
            if (state, begun, done) != ("succeeded", 1, 1):
                self.harm.append(f"{label} is {state}, began {begun} times and ended {done} times")
        self._short.clear()

    def judge_trained(self, client: Client, starts: int) -> None:
        """None was started more often than the service, or lost a worker, or a step it had made."""
        for name, job in self.trained.items():
            found = client.job(job)
            if found.state not in ("running", "resizing", "starting") or found.attempt > starts:
                self.harm.append(f"the {name} job is {found.state} in attempt {found.attempt} of {starts}")
            events = load_run(self.home / "control" / job)
            lost = [
                e
                for e in events
                if isinstance(e, WorkerLost) or (isinstance(e, Resized) and e.kind == "recover")
            ]
            if lost:
                self.harm.append(f"the {name} job: {lost[0]}")
            steps = [lap.step for lap in laps_of(self.folder / name) if lap.rank == 0]
            if steps != sorted(steps):
                self.harm.append(f"the {name} job went back")
