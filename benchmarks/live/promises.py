"""What a control plane acknowledged, to be held against what its successors say."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

from elastane.client import Client

TENANT = "waiting"
"""May hold nothing: its jobs only wait."""


@dataclass(slots=True)
class Promises:
    """Submissions and cancellations of one home."""

    taken: dict[str, str] = field(default_factory=dict)
    """Job by label."""
    cancelled: set[str] = field(default_factory=set)
    broken: list[str] = field(default_factory=list)
    _labels: int = 0
    _open: str = ""

    def make(self, client: Client, count: int, padding: int = 0) -> None:
        """Hand jobs in, one after the other, and cancel every third; ends with the client's error if there is one."""
        for _ in range(count):
            if not self._open:
                self._labels += 1
                self._open = f"job-{self._labels}"
            label = self._open  # one that nobody acknowledged is handed in again, as a client would
            spec: dict[str, Any] = {"name": label, "command": [sys.executable, "-c", "pass"], "tenant": TENANT}
            if padding:
                spec["env"] = {"PADDING": "x" * padding}
            self.taken[label] = client.submit(spec, directory="/", key=label).id
            self._open = ""
            if len(self.taken) % 3 == 0:
                client.cancel(self.taken[label])
                self.cancelled.add(self.taken[label])

    def check(self, client: Client, *, whole: bool = False) -> None:
        """Compare with what is said now; ``whole``: also that every job has a past."""
        found = client.jobs("all", limit=10_000)
        states = {job.id: job.state for job in found}
        names = [job.name for job in found]
        self.broken += [f"{label} ({job}) is gone" for label, job in self.taken.items() if job not in states]
        self.broken += [
            f"{job} was cancelled and is {states.get(job)}"
            for job in self.cancelled
            if states.get(job) != "cancelled"
        ]
        self.broken += [f"{name} is there twice" for name in set(names) if names.count(name) > 1]
        for job in states if whole else ():
            if not client.life(job):
                self.broken.append(f"{job} has no past")
