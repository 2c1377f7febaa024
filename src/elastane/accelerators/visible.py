"""Reads ``CUDA_VISIBLE_DEVICES`` as NVIDIA's driver does: it decides which devices a process may use.

Numbers count devices in the order of the driver, UUIDs may be shortened to what is unambiguous, and the list
ends at the first entry that names nothing.  A number that means a divided device means its first instance.
"""

from __future__ import annotations

from collections.abc import Sequence

from elastane.accelerators.device import Accelerator
from elastane.accelerators.nvml import Physical


def visible_devices(physical: Sequence[Physical], chosen: str | None) -> tuple[Accelerator, ...]:
    """Those in ``chosen`` (the variable's value), or all where nobody has chosen."""
    if chosen is None:
        return tuple(device for each in physical for device in each.usable)
    found: list[Accelerator] = []
    for entry in chosen.split(","):
        named = _named(physical, entry.strip())
        if named is None or named in found:
            break
        found.append(named)
    return tuple(found)


def _named(physical: Sequence[Physical], entry: str) -> Accelerator | None:
    if entry.isdecimal():
        usable = next((each.usable for each in physical if each.index == int(entry)), ())
        return usable[0] if usable else None
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    whole = [device for each in physical for device in each.usable if device.id == entry]
    begun = [each for each in physical if _begins(each, entry)]
    if whole or len(begun) != 1:
        return whole[0] if whole else None
    if entry.startswith("GPU-"):
        return begun[0].usable[0] if begun[0].usable else None
    return next(device for device in begun[0].usable if device.id.startswith(entry))


def _begins(each: Physical, entry: str) -> bool:
    own = each.device is not None and each.device.id.startswith(entry)
    return own or any(device.id.startswith(entry) for device in each.usable)
