"""Names every path under the home of a local engine, by who may write it.

``control`` is the service's own: what was launched, how it ended, plans and reports as the supervisor wrote them.
Nothing is decided by a file that lies elsewhere.  ``jobs/ID/run`` is the job's: logs and checkpoints.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from elastane.engines.contract import Attempt

LAUNCH, ENDED, LOCK, MEMBERS, CONTROL = "launch.json", "ended.json", "lock", "members.json", "control.json"
BEGUN = "begun"
PLANS, JOURNAL = "plans.jsonl", "events.jsonl"


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths below one folder."""

    home: Path

    def nodes(self) -> list[str]:
        """All that ever had an agent."""
        folder = self.home / "nodes"
        return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []

    def node(self, name: str) -> Path:
        """The folder of a node's agent."""
        return self.home / "nodes" / name

    def agent(self, name: str) -> Path:
        """Where an agent says how to reach it."""
        return self.node(name) / "agent.json"

    def agent_lock(self, name: str) -> Path:
        """Held by the agent of a node as long as it lives."""
        return self.node(name) / LOCK

    def joined(self, name: str) -> Path:
        """What a node on another machine said of itself; written by the hub, and only for such nodes."""
        return self.node(name) / "node.json"

    def begun(self, name: str) -> Path:
        """The attempts that were begun on a joined node and have not been ended, each with its supervisor's port."""
        return self.node(name) / "begun.json"

    def obligations(self, name: str) -> Path:
        """The folder of promises to end attempts on a joined node: a file for each, until that is done."""
        return self.node(name) / "obligations"

    @property
    def hub(self) -> Path:
        """The folder of the process that nodes on other machines dial."""
        return self.home / "hub"

    @property
    def hub_lock(self) -> Path:
        """Held by the hub as long as it lives."""
        return self.hub / LOCK

    def devices(self, node: str) -> Path:
        """The locks of a node's accelerators, which jobs take: they may enter, not write."""
        return self.home / "devices" / node

    def user(self, name: str) -> Path:
        """The home of a user that was made for a tenant."""
        return self.home / "users" / name

    @property
    def control(self) -> Path:
        """What the control plane decides by; no job may read or write it."""
        return self.home / "control"

    def records(self, job: str) -> Path:
        """What the supervisors of one job write down: plans, reports, where they are reached."""
        return self.control / job

    def attempt(self, attempt: Attempt) -> Path:
        """Of one attempt: its launch, its lock, its end."""
        return self.records(attempt.job) / f"attempt-{attempt.number}"

    @property
    def jobs(self) -> Path:
        """The folders of all jobs."""
        return self.home / "jobs"

    def job(self, job: str) -> Path:
        """The folder around what belongs to one job."""
        return self.jobs / job

    def run(self, job: str) -> Path:
        """Logs and checkpoints of all attempts: the job's own."""
        return self.job(job) / "run"
