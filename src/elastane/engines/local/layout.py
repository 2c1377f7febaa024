"""Where everything lies under the home of a local engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from elastane.engines.contract import Attempt

LAUNCH, ENDED, LOCK, MEMBERS, CONTROL = "launch.json", "ended.json", "lock", "members.json", "control.json"
BEGUN = "begun"


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths below one folder."""

    home: Path

    def nodes(self) -> list[str]:
        """All that ever had an agent."""
        folder = self.home / "nodes"
        return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []

    def node(self, name: str) -> Path:
        """An agent's folder."""
        return self.home / "nodes" / name

    def agent(self, name: str) -> Path:
        """Where an agent says how to reach it."""
        return self.node(name) / "agent.json"

    def agent_lock(self, name: str) -> Path:
        """Held by the agent of a node as long as it lives."""
        return self.node(name) / LOCK

    def job(self, job: str) -> Path:
        """Everything of one job."""
        return self.home / "jobs" / job

    def attempt(self, attempt: Attempt) -> Path:
        """Of one attempt: its launch, its lock, its end."""
        return self.job(attempt.job) / f"attempt-{attempt.number}"

    def run(self, job: str) -> Path:
        """Reports, logs and checkpoints, of all attempts."""
        return self.job(job) / "run"
