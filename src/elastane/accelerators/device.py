"""An ``Accelerator`` is one device that a worker can be given, with the name under which its driver shows it alone.

Its ``id`` says by itself which variable makes it visible: an UUID of NVIDIA (``GPU-…``, or ``MIG-…`` for an
instance), or the maker's word and a number (``hip:0``, ``ze:1``).  A plain number is one of NVIDIA's, in the
order of the driver.
"""

from __future__ import annotations

from dataclasses import dataclass

_VARIABLES = {"hip": "HIP_VISIBLE_DEVICES", "ze": "ZE_AFFINITY_MASK"}
CUDA_VARIABLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One accelerator as a worker can be given it: its name, memory and UUID or MIG id."""

    id: str
    name: str
    memory_gb: float
    parent: str = ""
    """The physical device that it is an instance of; empty for a whole one."""

    @property
    def kind(self) -> str:
        """The type as policies know it: ``nvidia-a100-sxm4-40gb``."""
        return self.name.strip().replace(" ", "-").lower() or "unknown"

    @property
    def physical(self) -> str:
        """The physical device: two workers on the same one cannot have a communicator."""
        return self.parent or self.id


@dataclass(frozen=True, slots=True)
class Found:
    """What a machine has, and what a person should know about the rest."""

    devices: tuple[Accelerator, ...] = ()
    problems: tuple[str, ...] = ()


def visible_as(device: str) -> tuple[str, str]:
    """The variable that makes a device visible, and its value."""
    maker, colon, number = device.partition(":")
    if colon and maker in _VARIABLES:
        return _VARIABLES[maker], number
    return CUDA_VARIABLE, device
