"""Holds the processes of an attempt on a node in a cgroup (version 2), which nobody leaves by forking or renaming.

``MOUNT/elastane-HOME/NODE/ATTEMPT``: homes never meet, and what a dead agent left is found by its node.  Whoever is
root could still move himself elsewhere; that is one more reason to run jobs as somebody else.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from elastane.kit.home_names import name_of

SWITCH = "ELASTANE_CGROUPS"
"""Set to ``off``: processes are followed by who started whom, as on a machine without cgroups."""
_PROCESSES, _KILL, _EVENTS = "cgroup.procs", "cgroup.kill", "cgroup.events"
_CONTROLLERS, _SUBTREE, _MEMORY = "cgroup.controllers", "cgroup.subtree_control", "memory.max"
_END_S, _LOOK_S = 3.0, 0.002


def cgroups_of(home: Path) -> Path | None:
    """The folder of a home's cgroups, made if it can be; None where there are none that we may use."""
    if os.environ.get(SWITCH) == "off":
        return None
    for base in _bases():
        place = base / f"elastane-{name_of(home)}"
        with contextlib.suppress(OSError):
            place.mkdir(exist_ok=True)
            if os.access(place / _PROCESSES, os.W_OK) and os.access(base / _PROCESSES, os.W_OK):
                return place
            place.rmdir()
    return None


def _bases() -> list[Path]:
    """Where groups may be made: at the top, and else below the one we are in, if that was delegated to us."""
    mount = _mount()
    if mount is None:
        return []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::/"):
                return [mount, mount / line.removeprefix("0::/").strip("/")]
    return [mount]


def _mount() -> Path | None:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mounts").read_text().splitlines():
            _, place, kind, *_ = line.split(" ")
            if kind == "cgroup2":
                return Path(place)
    return None


class Cgroup:
    """One folder of the cgroup file system, with whatever the processes in it made below."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def make(self) -> bool:
        """Whether it is there now."""
        with contextlib.suppress(OSError):
            self.place.mkdir(parents=True, exist_ok=True)
        return self.place.is_dir()

    def take_in(self, pid: int = 0) -> bool:
        """Move a process (0: this one) here; its children are born here from now on."""
        try:
            fd = os.open(self.place / _PROCESSES, os.O_WRONLY)
            try:
                os.write(fd, str(pid).encode())
            finally:
                os.close(fd)
        except OSError:
            return False
        return True

    def processes(self) -> list[int]:
        """All that live here or below."""
        found = []
        for folder, _, _ in os.walk(self.place):
            with contextlib.suppress(OSError):
                found += [int(line) for line in (Path(folder) / _PROCESSES).read_text().split()]
        return found

    def end(self) -> bool:
        """Kill everything here, and remove the group; whether nothing is left."""
        deadline = time.monotonic() + _END_S
        while not self.kill():
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_S)
        return True

    def kill(self) -> bool:
        """The same without waiting; to be called until nothing is left."""
        if self.place.is_dir():
            self._kill()
            self._remove()
        return not self.place.is_dir()

    def _kill(self) -> None:
        try:
            (self.place / _KILL).write_text("1")
        except OSError:  # a system older than that file: one by one, and again until nobody is left
            for pid in self.processes():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def _remove(self) -> None:
        """Once it is empty: the innermost first."""
        for folder, _, _ in os.walk(self.place, topdown=False):
            try:
                Path(folder).rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                return

    def limit_memory(self, size: int | None) -> bool:
        """No more than so many bytes for all here together; whether the system will see to it."""
        try:
            (self.place / _MEMORY).write_text("max" if size is None else str(size))
        except OSError:
            return False
        return True


def limits_memory(place: Path | None) -> bool:
    """Whether groups below a home's folder can have a limit; asks for it all the way down."""
    if place is None:
        return False
    try:
        if "memory" not in (place.parent / _CONTROLLERS).read_text().split():
            return False
        for folder in (place.parent, place):
            (folder / _SUBTREE).write_text("+memory")
    except OSError:  # processes live beside us in a group that is not the topmost one
        return False
    return True
