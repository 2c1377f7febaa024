"""Checks what workers need beside devices: shared memory, ports, a name, a clock, room on the disk, cgroups.

Every check tries what Elastane does, and leaves no file behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from elastane.cli.doctor.findings import Finding, note, wrong
from elastane.engines.local.cgroups import SWITCH, cgroups_of, limits_memory

_GB = 2**30
_LITTLE_SHM_GB, _LITTLE_DISK_GB, _NO_DISK_GB = 1.0, 5.0, 1.0
_NOT_SYNCHRONISED = 5


def python() -> Finding:
    """Which one this is, and on how many cores."""
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("Python", f"{version} ({sys.executable}), {len(os.sched_getaffinity(0))} cores")


def containment(place: Callable[[Path], Path | None] = cgroups_of) -> Finding:
    """How jobs are held together and limited."""
    group = place(Path(f"/elastane-doctor-{os.getpid()}"))
    if group is None and os.environ.get(SWITCH) == "off":
        return note("jobs", f"followed by who started whom: {SWITCH}=off", f"unset {SWITCH}")
    if group is None:
        return note(
            "jobs",
            "followed by who started whom, their memory is not limited: no cgroup (version 2) that we may use",
            "systemd-run --user --scope -p Delegate=yes elastane up, or a container with a cgroup of its own",
        )
    limited = limits_memory(group)
    with contextlib.suppress(OSError):
        group.rmdir()
    if not limited:
        return note(
            "jobs",
            "held in cgroups, their memory is not limited",
            "delegate the memory controller to this user",
        )
    return Finding("jobs", "held in cgroups, memory limited")


def shared_memory(path: Path = Path("/dev/shm")) -> Finding:  # noqa: S108
    """Where loaders hand batches over."""
    try:
        size_gb = shutil.disk_usage(path).total / _GB
    except OSError as error:
        remedy = f"mount -t tmpfs tmpfs {path}"
        return wrong("shared memory", f"{path}: {error.strerror}: loaders cannot hand batches over", remedy)
    if size_gb < _LITTLE_SHM_GB:
        return note(
            "shared memory", f"{path} has {size_gb:.2f} GB: little for loaders", "docker run --shm-size=8g …"
        )
    return Finding("shared memory", f"{path} has {size_gb:.1f} GB")


def ports(address: str = "127.0.0.1") -> Finding:
    """Whether a process may listen and another one reach it."""
    try:
        with socket.create_server((address, 0)) as server:
            socket.create_connection(server.getsockname()[:2], timeout=5.0).close()
    except OSError as error:
        told = f"nobody can listen on {address} and be reached: {error.strerror or error}"
        return wrong(
            "ports", told, "ip link set lo up, and let no firewall stop connections within this machine"
        )
    return Finding("ports", f"free ones on {address} can be listened on and reached")


def host_name(resolve: Callable[[str], str] = socket.gethostbyname) -> Finding:
    """Whether the machine's own name leads to it: libraries that scripts use ask for it."""
    name = socket.gethostname()
    line = f"add the line '127.0.1.1 {name}' to /etc/hosts"
    try:
        address = resolve(name)
    except OSError:
        return note("host name", f"{name} leads nowhere: other libraries may not start", line)
    try:
        with socket.socket() as own:
            own.bind((address, 0))
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            return note("host name", f"{name} leads to {address}, which is not this machine", line)
    return Finding("host name", f"{name} leads to {address}")


def clock(state: Callable[[], int] | None = None) -> Finding:
    """Whether somebody keeps it right: events of several machines are read side by side."""
    if (state or _clock_state)() == _NOT_SYNCHRONISED:
        return note("clock", "nobody synchronises it", "timedatectl set-ntp true")
    return Finding("clock", "synchronised")


def _clock_state() -> int:
    """As ``adjtimex`` answers; its buffer is larger than any that a kernel fills."""
    return int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(1024)))


def disk(home: Path) -> Finding:
    """Room for the store, logs and checkpoints, and whether we may write there."""
    there = next(folder for folder in (home, *home.absolute().parents) if folder.exists())
    free_gb = shutil.disk_usage(there).free / _GB
    if not os.access(there, os.W_OK):
        return wrong("disk", f"{there} cannot be written", "ELASTANE_HOME=/somewhere/else elastane up")
    told = f"{free_gb:.1f} GB free in {home}"
    if free_gb < _NO_DISK_GB:
        return wrong("disk", told, "make room there, or ELASTANE_HOME=/somewhere/else elastane up")
    if free_gb < _LITTLE_DISK_GB:
        return note("disk", f"{told}: little for checkpoints", "ELASTANE_HOME=/somewhere/else elastane up")
    return Finding("disk", told)
