"""Which accelerators a worker may use: it takes free ones of its node, and has them as long as it lives.

A device is taken by locking a file; the system lets go of the lock when the process (and whatever it became or
started) has ended, however it ended, so nobody has to keep count.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import MutableMapping
from pathlib import Path

NODE_DEVICES = "ELASTANE_DEVICES"
"""Set for a node that has accelerators: the folder of the locks, a ``|``, and the devices' numbers."""
WORKER_DEVICES = "ELASTANE_WORKER_DEVICES"
"""How many a worker needs; less than one is a share of whatever is there, and takes none."""
VISIBLE = "CUDA_VISIBLE_DEVICES"
_PATIENCE_S, _LOOK_S = 30.0, 0.05


def claim(environment: MutableMapping[str, str], patience_s: float = _PATIENCE_S) -> str:
    """Take as many as are needed and say so in the environment; what went wrong, or nothing."""
    written, wanted = environment.get(NODE_DEVICES), float(environment.get(WORKER_DEVICES, "1"))
    if not written or wanted < 1.0:
        return ""
    folder, _, numbers = written.partition("|")
    taken: list[str] = []
    deadline = time.monotonic() + patience_s
    while True:
        for number in numbers.split(","):
            if len(taken) < int(wanted) and number not in taken and _take(Path(folder) / f"device-{number}"):
                taken.append(number)
        if len(taken) >= int(wanted):
            environment[VISIBLE] = ",".join(taken)
            return ""
        if time.monotonic() > deadline:
            return f"only {len(taken)} of {int(wanted)} accelerators of this node became free"
        time.sleep(_LOOK_S)  # whoever leaves may need a moment


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
