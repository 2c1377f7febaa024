"""Gavel's memory between rounds holds the allocation in force, and what jobs received since it was computed.

Every job begins with half a round to its credit on every type, so that newcomers neither divide by zero nor take all
that there is.  When shares are computed anew, what a job should have received less what it did is carried over as its
shortfall.  All of it are JSON values in the plan's memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from elastane.policies.view import JobView, View

ByType = Mapping[str, float]


@dataclass(frozen=True)
class Entry:
    """One job: shares, seconds received and shortfall by type, and what its ledger said when it was last charged."""

    share: ByType
    got_s: ByType
    short_s: ByType
    held_s: float

    def as_json(self) -> list[Any]:
        """In the order of the fields."""
        return [dict(self.share), dict(self.got_s), dict(self.short_s), self.held_s]


@dataclass(frozen=True)
class Account:
    """The whole memory.  ``basis`` identifies what the shares were computed from; ``types`` go from fast to slow."""

    jobs: Mapping[str, Entry] = field(default_factory=dict)
    reset_s: float = 0.0
    types: tuple[str, ...] = ()
    basis: int = 0
    notes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, memory: Any) -> Account:
        """From a view's memory."""
        if not memory:
            return cls()
        jobs = {job: Entry(*values) for job, values in memory["jobs"].items()}
        return cls(jobs, memory["reset_s"], tuple(memory["types"]), memory["basis"], memory["notes"])

    def as_json(self) -> dict[str, Any]:
        """For a plan's memory."""
        jobs = {job: entry.as_json() for job, entry in self.jobs.items()}
        return {
            "jobs": jobs,
            "reset_s": self.reset_s,
            "types": list(self.types),
            "basis": self.basis,
            "notes": dict(self.notes),
        }

    def charged(self, view: View) -> Account:
        """With the time that jobs held GPUs since the last decision; jobs that are gone are forgotten."""
        jobs = {i: _charged(self.jobs[i], job, view) for i, job in view.jobs.items() if i in self.jobs}
        return replace(self, jobs=jobs)

    def reset(
        self,
        shares: Mapping[str, ByType],
        view: View,
        seed_s: float,
        types: tuple[str, ...],
        basis: int,
        notes: Mapping[str, Any],
    ) -> Account:
        """With new shares; the time since the last reset becomes shortfall."""
        since_s = view.now_s - self.reset_s
        jobs = {}
        for job, share in shares.items():
            old = self.jobs.get(job)
            short_s = {
                kind: 0.0
                if old is None
                else old.short_s.get(kind, 0.0)
                + old.share.get(kind, 0.0) * since_s
                - (old.got_s.get(kind, seed_s) - seed_s)
                for kind in share
            }
            held_s = view.jobs[job].ledger.held_at(view.now_s)
            jobs[job] = Entry(share, dict.fromkeys(share, seed_s), short_s, held_s)
        return Account(jobs, view.now_s, types, basis, notes)


def _charged(entry: Entry, job: JobView, view: View) -> Entry:
    held_s = job.ledger.held_at(view.now_s)
    kind = _type_held(job, view)
    received_s = held_s - entry.held_s
    if kind is None or received_s <= 0.0:
        return replace(entry, held_s=held_s)
    return replace(entry, held_s=held_s, got_s={**entry.got_s, kind: entry.got_s.get(kind, 0.0) + received_s})


def _type_held(job: JobView, view: View) -> str | None:
    """The type of the nodes that the job stands on; None if it holds nothing or its nodes are gone."""
    for part in job.grant.slices if job.grant else ():
        if part.node in view.nodes:
            return view.nodes[part.node].gpu_type
    return None
