"""Device locks give a worker free accelerators of its node, which it has as long as it lives.

A device is taken by locking a file; the system lets go of the lock when the process (and whatever it became or
started) has ended, however it ended, so nobody has to keep count.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import MutableMapping, Sequence
from pathlib import Path

from elastane.accelerators import visible_as

NODE_DEVICES = "ELASTANE_DEVICES"
"""Set for a node that has accelerators: the folder of the locks, a ``|``, and the devices' names (``visible_as``)."""
WORKER_DEVICES = "ELASTANE_WORKER_DEVICES"
"""How many a worker needs; less than one is a share of whatever is there, and takes none."""
FALL_BACK = "ELASTANE_SHARED_DEVICE"
"""Set where workers may share devices: the name of the one to use if none is free."""
CLAIMED = "ELASTANE_CLAIMED"
"""Set for a worker that has devices: their names."""
_PATIENCE_S, _LOOK_S = 30.0, 0.05


def claim(environment: MutableMapping[str, str], patience_s: float = _PATIENCE_S) -> str:
    """Take as many as are needed and say so in the environment; what went wrong, or nothing."""
    written, wanted = environment.get(NODE_DEVICES), float(environment.get(WORKER_DEVICES, "1"))
    if not written or wanted < 1.0:
        return ""
    folder, _, names = written.partition("|")
    taken: list[str] = []
    deadline = time.monotonic() + patience_s
    while True:
        for name in names.split(","):
            if len(taken) < int(wanted) and name not in taken and _take(lock_of(Path(folder), name)):
                taken.append(name)
        if len(taken) < int(wanted) and FALL_BACK in environment:
            taken = [environment[FALL_BACK]]
        if len(taken) >= int(wanted):
            environment.update({**visible(taken), CLAIMED: ",".join(taken)})
            return ""
        if time.monotonic() > deadline:
            return f"only {len(taken)} of {int(wanted)} accelerators of this node became free"
        time.sleep(_LOOK_S)  # whoever leaves may need a moment


def lock_of(folder: Path, device: str) -> Path:
    """The file whose lock is the device."""
    return folder / f"device-{device}"


def visible(devices: Sequence[str]) -> dict[str, str]:
    """What a process has to have in its environment to see these devices and no others of their maker."""
    values: dict[str, list[str]] = {}
    for device in devices:
        variable, value = visible_as(device)
        values.setdefault(variable, []).append(value)
    return {variable: ",".join(shown) for variable, shown in values.items()}


def _take(lock: Path) -> bool:
    """Never let go of: the descriptor stays open over an ``exec``, too."""
    # Made by the service, whose file it is: locking needs no more than reading.
    try:
        fd = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return False
    os.set_inheritable(fd, True)
    return True
