"""``discover`` finds the accelerators that this process may give to workers; none is initialised here.

NVIDIA's come from its management library.  AMD's come from theirs where its Python package is installed; those
and Intel's else from PyTorch, in a process that is thrown away, and only where both the driver and such a
PyTorch are there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from elastane.accelerators.amd import amd_devices
from elastane.accelerators.device import CUDA_VARIABLE, Found
from elastane.accelerators.nvml import LIBRARY, Nvml
from elastane.accelerators.probe import probe, torch_builds
from elastane.accelerators.visible import visible_devices

_AMD_DRIVER, _DISPLAYS = Path("/dev/kfd"), Path("/dev/dri")


def discover(environment: Mapping[str, str] = os.environ, nvml_library: str = LIBRARY) -> Found:
    """NVIDIA's devices, else AMD's, else Intel's."""
    found = _nvidia(environment, nvml_library)
    if found.devices or found.problems:
        return found
    if _AMD_DRIVER.exists():
        return _amd(environment)
    if torch_builds().get("xpu") and any(_DISPLAYS.glob("renderD*")):
        return Found(probe("ze", environment.get("ZE_AFFINITY_MASK"), environment))
    return Found()


def _nvidia(environment: Mapping[str, str], library: str) -> Found:
    with Nvml.opened(library) as nvml:
        physical = nvml.devices() if nvml is not None else []
    devices = visible_devices(physical, environment.get(CUDA_VARIABLE))
    return Found(devices, tuple(each.problem for each in physical if each.problem))


def _amd(environment: Mapping[str, str]) -> Found:
    chosen = environment.get("HIP_VISIBLE_DEVICES")
    told = amd_devices(chosen)
    if told is None and torch_builds().get("hip"):
        told = probe("hip", chosen, environment)
    return Found(told or ())
