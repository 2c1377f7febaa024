"""``OwnDevices`` are the accelerators of this machine that ``elastane train`` gives to its workers, one to each.

Only an adaptive job gets them like that: a script that was written for torchrun chooses its device by its
``LOCAL_RANK`` among all of them.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from elastane.accelerators import Accelerator
from elastane.train.coordinator.device_locks import FALL_BACK, NODE_DEVICES
from elastane.train.errors import TrainError

CHOSEN = "ELASTANE_DEVICE"
"""Set to ``cpu`` by whoever wants to train on the CPU although there are devices (``train.device``)."""
_BUILT_FOR = {"hip:": "hip", "ze:": "xpu"}


@dataclass(frozen=True, slots=True)
class OwnDevices:
    """Their names (``visible_as``), and whether several workers may use the same one."""

    names: tuple[str, ...] = ()
    shared: bool = False
    locks: Path = Path()
    """The folder in which they are locked."""

    @property
    def most_workers(self) -> int | None:
        """More than so many workers cannot be; None: as many as one likes."""
        return len(self.names) if self.names and not self.shared else None

    def check(self, workers: int) -> None:
        """Refuse more workers than devices."""
        most = self.most_workers
        if most is not None and workers > most:
            here = f"{most} GPU{'' if most == 1 else 's'} here"
            raise TrainError(f"{workers} workers, but {here}: --workers {most}, or --share-devices (slower)")

    def environment(self, worker: str) -> dict[str, str]:
        """What a worker claims its device by (``device_locks``)."""
        if not self.names:
            return {}
        fall_back = {FALL_BACK: self.names[_number(worker) % len(self.names)]} if self.shared else {}
        return {NODE_DEVICES: f"{self.locks}|{','.join(self.names)}", **fall_back}


def own_devices(
    found: tuple[Accelerator, ...],
    builds: Mapping[str, str],
    environment: Mapping[str, str],
    *,
    shared: bool,
    locks: Path,
) -> OwnDevices:
    """Of the devices that were found, those that the installed PyTorch (``torch_builds``) can use."""
    if environment.get(CHOSEN) == "cpu":
        return OwnDevices()
    return OwnDevices(tuple(each.id for each in found if _built_for(each.id) in builds), shared, locks)


def locks_of_user() -> Path:
    """The folder of the locks, the same for all runs of a user; one that nobody else knows if that is not his own."""
    folder = Path(tempfile.gettempdir()) / f"elastane-devices-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        facts = folder.lstat()
    except OSError:
        return Path(tempfile.mkdtemp())
    mine = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o022
    return folder if mine else Path(tempfile.mkdtemp())


def _built_for(device: str) -> str:
    return next((kind for start, kind in _BUILT_FOR.items() if device.startswith(start)), "cuda")


def _number(worker: str) -> int:
    digits = worker.lstrip("w")
    return int(digits) - 1 if digits.isdecimal() else 0
