"""Who is on the machine, against who the service says there is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.live.system import System
from elastane.client import Client
from elastane.engines.local.agent import SPARE
from elastane.engines.local.agent_messages import FROM_AGENT, AgentStatus, AskAgent
from elastane.engines.local.ask_agent import ask
from elastane.engines.local.json_files import read_json
from elastane.engines.local.marked_processes import marked
from elastane.engines.local.paths import Layout
from elastane.jobs.states import HOLDING

_HOLDING = frozenset(state.value for state in HOLDING)


@dataclass(frozen=True, slots=True)
class Census:
    """Processes nobody knows of, and processes that are said to be there and are not."""

    unknown: frozenset[int]
    missing: frozenset[int]

    @property
    def agrees(self) -> bool:
        """Whether machine and service tell the same."""
        return not self.unknown and not self.missing

    def __str__(self) -> str:
        return f"nobody knows {[_words(pid) for pid in self.unknown]}, nobody finds {sorted(self.missing)}"


def take_census(system: System, client: Client) -> Census:
    """Compare once.  A worker that has just been started is not known yet: look again before judging."""
    layout = Layout(system.home)
    found = list(_agents(layout))
    agents = {name: pid for name, pid, _ in found}
    fork_servers = {pid for *_, theirs in found for pid in theirs}
    attempts, workers = set[str](), set[int]()
    for job in client.jobs("active"):
        if job.state in _HOLDING:
            attempts.add(f"{job.id}.{job.attempt}")
            workers |= {worker.pid for worker in client.job(job.id).processes if worker.pid}
    there = dict(marked(system.home))
    strange = there.keys() - fork_servers - workers
    strange |= {pid for pid, mark in there.items() if mark.agent not in agents}
    # Workers of a fork server that was warmed in advance bear its mark: for them, being known has to do.
    strange |= {pid for pid, mark in there.items() if mark.attempt != SPARE and mark.attempt not in attempts}
    unmarked = set(system.processes()) - there.keys()
    strange |= {pid for pid in unmarked if not _expected(pid, set(agents.values()))}
    return Census(frozenset(strange), frozenset((fork_servers | workers) - there.keys()))


def agent_pids(home: Path) -> dict[str, int]:
    """The agents that say they are there, by node."""
    found = {}
    for node in Layout(home).nodes():
        facts = read_json(Layout(home).agent(node))
        if facts is not None:
            found[node] = int(facts["pid"])
    return found


def supervisors(home: Path) -> list[int]:
    """The processes that each look after one attempt, as they say themselves."""
    found = (read_json(path) for path in (home / "control").glob("*/control.json"))
    return [int(facts["pid"]) for facts in found if facts is not None and _words(int(facts["pid"]))]


def _agents(layout: Layout) -> Iterator[tuple[str, int, set[int]]]:
    """(name, process, fork servers) of every agent that answers."""
    for node in layout.nodes():
        facts = read_json(layout.agent(node))
        answer = asyncio.run(ask(facts, AskAgent(), FROM_AGENT)) if facts is not None else None
        if facts is not None and isinstance(answer, AgentStatus):
            fork_servers = {pid for pid in (*answer.fork_servers.values(), answer.spare) if pid}
            yield str(facts["name"]), int(facts["pid"]), fork_servers


def _expected(pid: int, agents: set[int]) -> bool:
    """The control plane, an agent that answers, or a supervisor."""
    words = _words(pid)
    if not words:
        return True  # it has just ended
    if words[1:4] == ["-m", "elastane", "up"]:
        return True
    if words[2:3] == ["elastane.engines.local.agent"]:
        return pid in agents
    # Such a process waits for an attempt, or runs one, which its lock tells.
    return words[2:3] == ["elastane.engines.local.spare_process"]


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _words(pid: int) -> list[str]:
    try:
        data = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return data.decode(errors="replace").split("\0")[:-1]
