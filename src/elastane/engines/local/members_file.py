"""Reads and writes ``members.json``: what kind of job an attempt runs, and where its workers are.

Its supervisor's process writes it whenever something changes.  In an earlier version a job could write it as well, so
whatever does not make sense in it is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from elastane.engines.contract import WorkerFacts
from elastane.engines.local.json_files import read_json, write_json
from elastane.engines.local.paths import MEMBERS
from elastane.engines.local.untrusted_files import clean
from elastane.train.coordinator.messages import Status
from elastane.train.coordinator.script_kind import JobKind

_KINDS = frozenset(kind.value for kind in JobKind)
_MOST_WORKERS = 10_000
_LONGEST_NAME = 100
_NOBODY = Status(generation=0, members=(), target=0, step=0, workers={})


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """Where a worker is, in its phase's own words."""

    node: str
    pid: int | None
    phase: str


@dataclass(frozen=True, slots=True)
class Members:
    """Who is there and where; nothing that changes with every step."""

    kind: str
    """Of the job (``JobKind``); empty where the file names none that we know."""
    why_kind: str = ""
    generation: int = 0
    members: tuple[str, ...] = ()
    """In rank order."""
    workers: Mapping[str, MemberFacts] = field(default_factory=dict)

    @classmethod
    def of(cls, kind: JobKind, why_kind: str, status: Status | None) -> Members:
        """What a supervisor knows; it has no ``status`` before it serves."""
        status = status or _NOBODY
        workers = {name: MemberFacts(w.node, w.pid, w.phase) for name, w in status.workers.items()}
        return cls(kind.value, why_kind, status.generation, status.members, workers)

    def facts(self) -> list[WorkerFacts]:
        """The workers, as an engine tells of them."""
        return [WorkerFacts(name, w.node, w.pid, w.phase) for name, w in self.workers.items()]


def write_members(folder: Path, members: Members) -> None:
    """Replace the file of the attempt in this folder."""
    write_json(folder / MEMBERS, asdict(members))


def read_members(folder: Path) -> Members | None:
    """The file of the attempt in this folder; None if there is none that can be read."""
    values = read_json(folder / MEMBERS)
    return None if values is None else _members(values)


def _members(values: Mapping[str, Any]) -> Members:
    kind, workers = str(values.get("kind", "")), values.get("workers")
    found = workers.items() if isinstance(workers, dict) else ()
    known = [(clean(name, _LONGEST_NAME), _worker(each)) for name, each in found if isinstance(each, dict)]
    return Members(
        kind=kind if kind in _KINDS else "",
        why_kind=clean(values.get("why_kind", "")),
        workers=dict(known[:_MOST_WORKERS]),
    )


def _worker(facts: Mapping[str, Any]) -> MemberFacts:
    pid = facts.get("pid")
    known = pid if isinstance(pid, int) and 0 < pid < 1 << 31 else None
    return MemberFacts(
        clean(facts.get("node", ""), _LONGEST_NAME), known, clean(facts.get("phase", ""), _LONGEST_NAME)
    )
