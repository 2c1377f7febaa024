"""What this machine offers: accelerators where there are any, else CPU slots; as one node or as several."""

from __future__ import annotations

import ctypes
import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass

from elastane.cluster import Node
from elastane.errors import ElastaneError

CPU = "cpu"
_MOST_NODES, _MOST_SLOTS = 1000, 1024


@dataclass(frozen=True, slots=True)
class Accelerators:
    """So many of one type."""

    count: int
    kind: str


def discover() -> Accelerators:
    """NVIDIA devices through NVML, or one slot per core."""
    found = _nvidia()
    return found if found is not None else Accelerators(cores(), CPU)


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0))


def _nvidia() -> Accelerators | None:
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    if nvml.nvmlInit_v2() != 0:
        return None
    count, handle, name = ctypes.c_uint(), ctypes.c_void_p(), ctypes.create_string_buffer(96)
    if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0 or not count.value:
        return None
    nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))
    nvml.nvmlDeviceGetName(handle, name, len(name))
    return Accelerators(count.value, name.value.decode(errors="replace").replace(" ", "-").lower() or "nvidia")


def shared_cores() -> int | None:
    """Cores that all slots of this machine share; None if slots are accelerators."""
    return cores() if discover().kind == CPU else None


def nodes_here(nodes: int | None, slots: int | None) -> tuple[dict[str, Node], list[str]]:
    """(Virtual) nodes by name, and what a person should know about them."""
    here = discover()
    count = nodes if nodes is not None else 1
    each = slots if slots is not None else max(1, here.count // count)
    if not 1 <= count <= _MOST_NODES:
        raise ElastaneError(f"--nodes: must be between 1 and {_MOST_NODES}, not {count}")
    if not 1 <= each <= _MOST_SLOTS:
        raise ElastaneError(f"--slots: must be between 1 and {_MOST_SLOTS}, not {each}")
    warnings = []
    if here.kind == CPU and count * each > cores():
        warnings.append(f"{count * each} slots share {cores()} cores: jobs are slower while all are busy")
    if here.kind != CPU and count * each > here.count:
        raise ElastaneError(
            f"--nodes {count} --slots {each}: {count * each} slots, but {here.count} accelerators"
        )
    return {f"n{i}": Node(f"n{i}", each, here.kind) for i in range(count)}, warnings


def devices_of(nodes: Mapping[str, Node]) -> dict[str, tuple[int, ...]]:
    """Numbers of the accelerators of each node, one after the other; none where slots are cores."""
    numbers = itertools.count()
    return {
        name: tuple(itertools.islice(numbers, node.gpus))
        for name, node in nodes.items()
        if node.gpu_type != CPU
    }
