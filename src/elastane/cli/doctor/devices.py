"""Checks what the machine trains on: accelerators, driver, PyTorch, its communicator, the transport of gradients.

Nothing here imports PyTorch or initialises a device: versions are read from the files of the packages.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata

from elastane.accelerators import Found
from elastane.cli.doctor.findings import Finding, note, wrong
from elastane.service.machine import by_type

INSTALL = "python -m pip install 'elastane[torch]'"
OLDEST_NCCL = (2, 26)
_MAKERS = {"hip:": "hip", "ze:": "xpu"}
_WITH_DEVICES = "install a PyTorch for these devices: https://pytorch.org/get-started/locally/"


def accelerators(found: Found) -> list[Finding]:
    """Each type with its number, and each device that is left out."""
    problems = [wrong("devices", problem, "restart the driver or the machine") for problem in found.problems]
    if not found.devices:
        return [*problems, Finding("devices", "none: workers train on CPU cores")]
    told = [
        f"{len(group)} × {group[0].name} ({group[0].memory_gb:g} GB): {', '.join(device.id for device in group)}"
        for group in by_type(found.devices)
    ]
    return [*problems, *(Finding("devices", line) for line in told)]


def pytorch(builds: Mapping[str, str], found: Found, driver: str) -> list[Finding]:
    """Whether there is one, and one for these devices."""
    if not builds:
        return [wrong("PyTorch", "not installed: nothing can be trained with this Python", INSTALL)]
    kinds = [kind for kind in ("cuda", "hip", "xpu") if kind in builds]
    built = f"{builds['version']}, built for {' and '.join(f'{k} {builds[k]}' for k in kinds) or 'CPUs'}"
    findings = [Finding("PyTorch", built)]
    needed = {_maker(device.id) for device in found.devices}
    for kind in sorted(needed - set(kinds)):
        findings.append(wrong("PyTorch", f"it cannot use the {kind} devices that are here", _WITH_DEVICES))
    if driver:
        oldest = _OLDEST_DRIVERS.get(_first_number(builds.get("cuda", "")), 0)
        if _first_number(driver) < oldest:
            told = f"{driver} is too old for PyTorch's CUDA {builds['cuda']}, which needs {oldest} or newer"
            findings.append(wrong("driver", told, "a newer driver, or a PyTorch built for an older CUDA"))
        else:
            findings.append(Finding("driver", driver))
    return findings


_OLDEST_DRIVERS = {11: 450, 12: 525, 13: 580}
"""By the major version of CUDA, the first driver (on Linux) that runs programs of all its minor versions."""


def _first_number(version: str) -> int:
    first = version.split(".")[0]
    return int(first) if first.isdecimal() else 0


def communicator(found: Found) -> list[Finding]:
    """NCCL's version, where there are devices that it serves."""
    if "cuda" not in {_maker(device.id) for device in found.devices}:
        return []
    version = nccl_version()
    if not version:
        return [note("NCCL", "not installed as a package; PyTorch may bring its own")]
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if numbers < OLDEST_NCCL:
        return [note("NCCL", f"{version} cannot be aborted reliably (2.26 can)", _WITH_DEVICES)]
    return [Finding("NCCL", version)]


def gradients(found: Found) -> Finding:
    """How they travel between workers of this machine."""
    if not found.devices:
        return Finding("gradients", "over gloo, from memory to memory")
    told = "over gloo, through main memory"
    physical = [device.physical for device in found.devices]
    if len(set(physical)) < len(physical):
        return note("gradients", f"{told}: parts of one GPU cannot have a communicator")
    return Finding("gradients", told)


def nccl_version() -> str:
    """Of the package that PyTorch for CUDA depends on; nothing if there is none."""
    for distribution in metadata.distributions():
        name = str(distribution.metadata["Name"] or "").lower()
        if name.startswith("nvidia-nccl-cu"):
            return distribution.version
    return ""


def _maker(device: str) -> str:
    return next((kind for start, kind in _MAKERS.items() if device.startswith(start)), "cuda")
