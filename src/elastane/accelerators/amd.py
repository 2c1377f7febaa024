"""AMD's management library, where its Python package is installed: names, memory and numbers of devices."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

from elastane.accelerators.device import Accelerator


def amd_devices(chosen: str | None, library: Any = None) -> tuple[Accelerator, ...] | None:
    """Devices among ``chosen`` (HIP_VISIBLE_DEVICES); None where the library cannot be asked."""
    if library is None:
        try:
            library = importlib.import_module("amdsmi")
        except (ImportError, OSError, KeyError):
            return None
    found: list[Accelerator] | None = None
    with contextlib.suppress(Exception):  # its errors have no common class over versions
        library.amdsmi_init()
        found = [
            _device(library, number, handle)
            for number, handle in enumerate(library.amdsmi_get_processor_handles())
        ]
    with contextlib.suppress(Exception):  # else it keeps the driver's files open, and nobody may fork
        library.amdsmi_shut_down()
    if found is None:
        return None
    return tuple(found) if chosen is None else among(found, chosen)


def among(found: list[Accelerator], chosen: str) -> tuple[Accelerator, ...]:
    """Those of a list of numbers, until the first that is none."""
    taken: list[Accelerator] = []
    for entry in chosen.split(","):
        number = entry.strip()
        if not number.isdecimal() or int(number) >= len(found):
            break
        taken.append(found[int(number)])
    return tuple(taken)


def _device(library: Any, number: int, handle: Any) -> Accelerator:
    name = str(library.amdsmi_get_gpu_asic_info(handle)["market_name"])
    megabytes = int(library.amdsmi_get_gpu_vram_info(handle)["vram_size"])
    return Accelerator(f"hip:{number}", name, round(megabytes / 1024, 1))
