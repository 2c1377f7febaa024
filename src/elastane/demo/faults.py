"""Describes what the cluster demo does to machines, and what was noticed of it, after how many seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from elastane.demo.pauses import START, pauses_of
from elastane.kit.durations import duration
from elastane.service.messages import JobDetail
from elastane.train.reports.events import Event

_MEMBER = "member"
_RUNNING = "running"


class Act(Enum):
    """What is done to a host."""

    KILL = "killed"
    ADD = "added"
    PULL = "cable pulled"
    MEND = "cable put back"


LOSSES = frozenset({Act.KILL, Act.PULL})


@dataclass(slots=True)
class Deed:
    """Something that was done to a host at a moment (Unix seconds), and what came of it; None while unknown."""

    at_s: float
    act: Act
    host: str
    jobs: Mapping[str, int] = field(default_factory=dict)
    """The jobs that had workers there, by name, and how many workers they had elsewhere."""
    noticed_s: float | None = None
    """Seconds until the control plane called the node lost, or up."""
    used_s: float | None = None
    """Seconds until a worker trained there, for a host that came."""
    pauses_s: dict[str, float] = field(default_factory=dict)
    """How long each of the jobs did not train, from their own events; the loss itself was noticed within it."""

    @property
    def is_loss(self) -> bool:
        """Whether the host is away by this."""
        return self.act in LOSSES

    def sentence(self) -> str:
        """Says what was done."""
        there = " and ".join(self.jobs) or "nobody"
        match self.act:
            case Act.KILL:
                return f"killed {self.host} with everything on it (workers of {there})"
            case Act.PULL:
                return f"pulled the network cable of {self.host} (workers of {there})"
            case Act.MEND:
                return f"put the cable of {self.host} back"
            case Act.ADD:
                return f"switched {self.host} on; it joins"

    def notice(self) -> str:
        """Says that the control plane has noticed, and when."""
        assert self.noticed_s is not None
        after = f"noticed after {duration(self.noticed_s)}"
        return (
            f"{self.host} is lost: {after}"
            if self.is_loss
            else f"{self.host} is a node of the cluster: {after}"
        )

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        return {
            "what": self.act.value,
            "host": self.host,
            "noticed_s": _rounded(self.noticed_s),
            "used_s": _rounded(self.used_s),
            "pauses_s": {name: round(pause_s, 3) for name, pause_s in self.pauses_s.items()},
        }


def elsewhere(job: JobDetail, host: str) -> int | None:
    """Counts the workers of a job that train on other hosts; None if it has none on this one."""
    members = [worker.node for worker in job.processes if worker.doing == _MEMBER]
    return sum(node != host for node in members) if host in members else None


def jobs_on(host: str, jobs: Iterable[JobDetail]) -> dict[str, int]:
    """Returns the jobs that train on a host, and how many workers each has elsewhere."""
    there = {job.name: elsewhere(job, host) for job in jobs if job.state == _RUNNING}
    return {name: others for name, others in there.items() if others is not None}


def host_to_hit(hosts: Sequence[str], jobs: Sequence[JobDetail], *, spread: bool) -> str | None:
    """Selects the host with most jobs on it; ``spread``: only one with a job that has workers elsewhere as well."""
    found = {host: jobs_on(host, jobs) for host in hosts}
    fit = [host for host in hosts if (any(found[host].values()) if spread else found[host])]
    return max(fit, key=lambda host: sum(others > 0 for others in found[host].values()), default=None)


def survivor_pauses(deed: Deed, events: Mapping[str, Sequence[Event]], until_s: float) -> dict[str, float]:
    """Returns how long the jobs that lost workers and kept some did not train, by name, as they reported it."""
    found = {}
    for name, others in deed.jobs.items():
        changes = [each for each in pauses_of(events.get(name, ())) if deed.at_s <= each.at_s < until_s]
        if others and changes and changes[0].kind != START:
            found[name] = changes[0].pause_s
    return found


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
