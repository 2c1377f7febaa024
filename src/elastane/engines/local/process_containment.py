"""Keeps together what one agent started, attempt by attempt, so that all of it can be ended.

Two ways at once: a cgroup for each attempt where there are any, and descent from fork servers and agents that adopt
orphans.  The second alone loses a process only if the agent is killed before it has noted it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path

from elastane.engines.local import process_descent
from elastane.engines.local.cgroups import Cgroup, cgroups_of, limits_memory
from elastane.engines.local.json_files import Lock
from elastane.engines.local.paths import Layout

_NOTES, _GROUPS = "kin.json", "cgroups"
_FORK_SERVER_BYTES = 256 << 20
"""What the parent of workers may take beside them."""


class Enclosure:
    """Everything that runs on one node."""

    def __init__(self, layout: Layout, node: str, *, adopts: bool = False) -> None:
        """``adopts``: this process is there for the node alone, so that every child it did not start is a stray."""
        layout.node(node).mkdir(parents=True, exist_ok=True)
        self._adopts = adopts
        end_leftovers(layout, node)
        self._notes = process_descent.Notes(layout.node(node) / _NOTES)
        self._place = cgroups_of(layout.home)
        self._node = node
        self._limits = limits_memory(self._place)
        if adopts:
            process_descent.adopt_orphans()
        if self._place is not None:
            self._limits = self._limits and Cgroup(self._place / node).make() and self._pass_limits_on()
            # Where we were started may decide where our groups are: the next agent looks there, too.
            (layout.node(node) / _GROUPS).write_text(str(self._place))

    def _pass_limits_on(self) -> bool:
        assert self._place is not None
        with contextlib.suppress(OSError):
            (self._place / self._node / "cgroup.subtree_control").write_text("+memory")
            return True
        return False

    def entrance(self, attempt: str) -> Callable[[], None]:
        """To be called by a process of an attempt before it becomes the program it is to run."""
        group = self._group(attempt)
        if group is not None:
            group.make()

        def enter() -> None:
            process_descent.adopt_orphans()
            if group is not None:
                group.take_in()

        return enter

    def take_in(self, attempt: str, pid: int) -> None:
        """A process that runs already belongs to this attempt from now on."""
        group = self._group(attempt)
        if group is not None and group.make():
            group.take_in(pid)

    def limit(self, attempt: str, memory: int, workers: int) -> bool:
        """So many bytes for each of its workers here; whether the system sees to it."""
        group = self._group(attempt)
        if group is None or not self._limits or not memory:
            return False
        return group.make() and group.limit_memory(memory * max(1, workers) + _FORK_SERVER_BYTES)

    def kill(self, attempt: str, fork_server: int | None) -> bool:
        """Kill all of an attempt but the fork server itself, which its parent waits for; whether nobody is left.

        Neither this nor ``kill_strays`` waits: they are to be called until nobody is left.
        """
        group = self._group(attempt)
        nobody = group is None or group.kill()
        return (fork_server is None or process_descent.kill_descendants(fork_server)) and nobody

    def kill_strays(self, fork_servers: Iterable[int]) -> bool:
        """Kill what fork servers that have ended left behind; whether there was nothing."""
        return not self._adopts or process_descent.kill_strays(fork_servers)

    def note(self, fork_servers: Iterable[int]) -> None:
        """Remember who is here, if only descent tells."""
        if self._place is None:
            self._notes.write(fork_servers)

    def _group(self, attempt: str) -> Cgroup | None:
        return Cgroup(self._place / self._node / attempt) if self._place is not None else None


def end_leftovers(layout: Layout, node: str) -> None:
    """Kill what an agent that is no more left on its node; call it with the agent's lock, or when nobody has it."""
    process_descent.Notes(layout.node(node) / _NOTES).end()
    for place in _known_places(layout, node):
        Cgroup(place / node).end()
        with contextlib.suppress(OSError):  # other nodes have theirs there
            place.rmdir()
    with contextlib.suppress(OSError):  # something else may stand in place of the node's folder
        (layout.node(node) / _GROUPS).unlink()


def end_everything(layout: Layout) -> None:
    """The same for all nodes of a home without an agent, and for its own group."""
    for node in layout.nodes():
        with contextlib.suppress(OSError):  # whatever a job that shares our user has put there
            if not Lock(layout.agent_lock(node)).held:
                end_leftovers(layout, node)


def _known_places(layout: Layout, node: str) -> set[Path]:
    places = {cgroups_of(layout.home)}
    with contextlib.suppress(OSError):
        noted = Path((layout.node(node) / _GROUPS).read_text())
        if noted.name.startswith("elastane-"):
            places.add(noted)
    return {place for place in places if place is not None}
