"""The engine of one machine: agents for its nodes, a process for each attempt, and nothing kept in memory.

Whatever it needs to know after a restart lies in files: who holds which lock, what was launched, how it ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from elastane.cluster import Node
from elastane.engines.contract import (
    Attempt,
    Ending,
    Examined,
    NodeFacts,
    Pool,
    Report,
    Wanted,
    WorkerFacts,
    places_of,
)
from elastane.engines.deadline_threads import Aside
from elastane.engines.local.agent_client import AgentWatch
from elastane.engines.local.attempt_monitor import AttemptMonitor
from elastane.engines.local.cgroups import cgroups_of, limits_memory
from elastane.engines.local.inspect_command import Examiner
from elastane.engines.local.job_users import JobsAs
from elastane.engines.local.marked_processes import Mark, kill_marked
from elastane.engines.local.paths import Layout
from elastane.engines.local.process_containment import end_everything
from elastane.engines.local.supervisor_pool import Supervisors
from elastane.engines.local.survive_errors import Trouble
from elastane.engines.local.upgrade_home import take_up
from elastane.engines.machines import Machines
from elastane.engines.nodes.joined_nodes import JoinedNodes, join_string
from elastane.errors import ElastaneError
from elastane.jobs.parts import Interpreter

_NODES_S = 10.0
_LISTEN_S = 0.5
_END_S = 15.0


class LocalEngine:
    """Attempts of this machine on its own nodes, and on those of other machines that have joined."""

    def __init__(
        self,
        home: Path,
        nodes: Mapping[str, Node],
        devices: Mapping[str, Sequence[str]] | None = None,
        jobs_as: JobsAs | None = None,
        listen: str = "",
        machines: Machines | None = None,
    ) -> None:
        """``devices`` are the names of the accelerators of each node that has any.

        ``listen`` is where nodes on other machines join, as ``HOST:PORT``; empty if they cannot.
        ``machines`` supplies such machines, if anything does.
        """
        self._machines = machines
        self._jobs_as = jobs_as or JobsAs()
        numbers = devices or {}
        self._facts = {name: _facts(name, numbers.get(name, ())) for name in nodes}
        self._layout = Layout(home)
        self._nodes = dict(nodes)
        self._news = asyncio.Event()
        self._watches = {
            name: AgentWatch(self._layout, name, self._news.set, numbers.get(name, ()), self._wants)
            for name in nodes
        }
        self._joined = JoinedNodes(self._layout, listen, self._news.set, self._wants, self._nodes)
        self._devices = numbers
        self._monitors: dict[Attempt, AttemptMonitor] = {}
        self._tasks: dict[object, asyncio.Task[None]] = {}
        self._reports: list[Report] = []
        self._limits_memory = False
        self._examiner, self._aside = Examiner(), Aside()
        self._trouble = Trouble("nodes on other machines cannot be looked after")
        self._supervisors = Supervisors(home, lambda s, do: asyncio.get_running_loop().call_later(s, do))

    async def examine(
        self,
        kind: str,
        command: Sequence[str],
        directory: str,
        environment: Mapping[str, str],
        python: Interpreter | None = None,
        *,
        owner: str = "",
    ) -> Examined:
        """By its source, if it is a Python script; read in a thread, for files may lie on disks that do not answer."""
        asked = (kind, command, directory, environment, python)
        known = self._examiner.known(*asked)
        if known is not None:
            return known
        return await self._aside.look(owner, partial(self._examiner.examine, *asked))

    async def open(self) -> None:
        """Start agents where there are none, and wait for them."""
        take_up(self._layout)
        self._limits_memory = limits_memory(cgroups_of(self._layout.home))
        await self._joined.open()  # first what can fail because of what is asked for
        self._supervisors.keep_one_ready()
        for name, watch in self._watches.items():
            self._tasks[name] = asyncio.create_task(watch.run())
        self._tasks[self] = asyncio.create_task(self._listen())
        if self._machines is not None:
            join = join_string(self._layout.home)
            self._tasks["machines"] = asyncio.create_task(self._machines.run(join, self._news.set))
        deadline = asyncio.get_running_loop().time() + _NODES_S
        while not all(w.alive for w in self._watches.values()) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)

    async def _listen(self) -> None:
        """One task notices the silence of all agents, so that many nodes cost no more than a few."""
        while True:
            await asyncio.sleep(_LISTEN_S)
            for watch in self._watches.values():
                watch.look()
            with self._trouble.logged():
                self._joined.look()

    def _wants(self, node: str, attempt: str) -> bool:
        monitors = [t for t in self._monitors.values() if str(t.attempt) == attempt and not t.over]
        return any(t.wanted.grant is not None and node in places_of(t.wanted.grant) for t in monitors)

    async def close(self, *, leave_running: bool) -> None:
        """Let go of everything, or end everything."""
        if not leave_running:
            for monitor in self._monitors.values():
                monitor.want(Wanted(monitor.wanted.launch, None, Ending.SUSPEND, "Elastane was shut down"))
            await self._until_over()
            await asyncio.gather(*(monitor.force() for monitor in self._monitors.values() if not monitor.over))
            if self._machines is not None:
                await self._machines.give_back()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._supervisors.close()
        await self._joined.close(leave_running=leave_running)
        if not leave_running:
            await asyncio.gather(*(watch.shut_down() for watch in self._watches.values()))
            kill_marked(self._layout.home, lambda _: True)
            await asyncio.to_thread(end_everything, self._layout)

    async def _until_over(self) -> None:
        tasks = [self._tasks[attempt] for attempt in self._monitors if attempt in self._tasks]
        if tasks:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait(tasks, timeout=_END_S)

    def nodes(self) -> Mapping[str, Node]:
        """Nodes whose agent answers."""
        own = {name: node for name, node in self._nodes.items() if self._watches[name].alive}
        return {**own, **self._joined.answering()}

    def known_nodes(self) -> Mapping[str, Node]:
        """All of this machine's, and all that have joined."""
        return {**self._nodes, **self._joined.known()}

    def node_facts(self) -> Mapping[str, NodeFacts]:
        """What is known of all nodes besides."""
        return {**self._facts, **self._joined.facts()}

    def listening(self) -> str:
        """Where nodes on other machines join, as ``HOST:PORT``; empty if they cannot."""
        return self._joined.listening()

    def pools(self) -> Mapping[str, Pool]:
        """Kinds of machines that can be had; none where nothing supplies any."""
        return self._machines.pools() if self._machines is not None else {}

    def want(self, pool: str, count: int, keep: Collection[str]) -> None:
        """Tell whoever supplies machines.

        Raises:
            ElastaneError: there is no such pool.
        """
        if self._machines is None or pool not in self._machines.pools():
            raise ElastaneError(
                f"pool: there is none called {pool}; the nodes of one machine are what they are"
            )
        self._machines.want(pool, count, keep)

    def ensure(self, wanted: Wanted) -> None:
        """Have somebody look after it."""
        attempt = wanted.launch.attempt
        monitor = self._monitors.get(attempt)
        if monitor is not None:
            if monitor.wanted != wanted:
                monitor.want(wanted)
            return
        monitor = self._monitors[attempt] = AttemptMonitor(
            self._layout.home, wanted, self._say, self._supervisors.begin, self._jobs_as
        )
        self._tasks[attempt] = asyncio.create_task(monitor.run())

    def _say(self, report: Report) -> None:
        self._reports.append(report)
        self._news.set()

    def reports(self) -> list[Report]:
        """Return the reports that came since the last call, oldest first."""
        reports, self._reports = self._reports, []
        return reports

    async def changed(self, timeout_s: float) -> bool:
        """Wait until there may be new reports or other nodes."""
        try:
            await asyncio.wait_for(self._news.wait(), timeout_s)
        except TimeoutError:
            return False
        self._news.clear()
        return True

    def forget(self, attempt: Attempt) -> None:
        """Nothing of it is of interest any more; processes that a worker left behind end now."""
        self._monitors.pop(attempt, None)
        self._tasks.pop(attempt, None)
        kill_marked(self._layout.home, lambda mark: _of(mark, attempt))

    def processes(self, attempt: Attempt) -> list[WorkerFacts]:
        """As last written down."""
        monitor = self._monitors.get(attempt)
        return monitor.processes() if monitor is not None else []

    def facts(self) -> Mapping[str, Any]:
        """Describe the agents of all nodes, for people."""
        return {
            "engine": "local",
            "limits_memory": self._limits_memory,
            "elsewhere": len(self._joined.known()),
            **({"machines": self._machines.facts()} if self._machines is not None else {}),
            "agents": {
                **{name: {"alive": w.alive, "pid": w.pid} for name, w in self._watches.items()},
                **self._joined.agents(),
            },
        }


def _facts(name: str, devices: Sequence[str]) -> NodeFacts:
    """A virtual node's facts: all stand on this machine, and share its cores where slots are no devices."""
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return NodeFacts(
        name,
        accelerators=tuple(devices),
        cores=len(os.sched_getaffinity(0)),
        memory_gb=memory_gb,
        declared=True,
    )


def _of(mark: Mark, attempt: Attempt) -> bool:
    return mark.attempt == str(attempt)
