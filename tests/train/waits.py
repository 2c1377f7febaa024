"""Counts how often the host waits for its device: reads of numbers, copies that block, events, whole devices."""

from __future__ import annotations

import collections
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from elastane.train.device import Device, Mark

_READS = ("_local_scalar_dense", "item", "nonzero", "equal", "is_nonzero")
_COPIES = ("copy_", "_to_copy", "_copy_from")


class Waits(TorchDispatchMode):
    """What the calling thread waited for, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.found: collections.Counter[str] = collections.Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        if name in _READS and any(not tensor.is_cpu for tensor in tensors):
            self.found[name] += 1
        result = func(*args, **(kwargs or {}))
        if name in _COPIES:
            self._copied(name, tensors, result, args, kwargs or {})
        return result

    def _copied(self, name: str, tensors: Any, result: Any, args: Any, kwargs: Any) -> None:
        source, target = (tensors[1], tensors[0]) if name == "copy_" else (tensors[0], result)
        if source.is_cpu == target.is_cpu:
            return
        non_blocking = kwargs.get("non_blocking", args[2] if name == "copy_" and len(args) > 2 else False)
        host = source if source.is_cpu else target
        if not (non_blocking and host.is_pinned()):
            self.found[f"{name} {'up' if source.is_cpu else 'down'}"] += 1


@contextmanager
def counted() -> Iterator[collections.Counter[str]]:
    """Every wait of this thread inside."""
    waits = Waits()
    wait, synchronize = Mark.wait, Device.synchronize

    here = threading.get_ident()  # a transport's own thread may wait as it likes

    def waiting(mark: Mark) -> None:
        waits.found["event"] += threading.get_ident() == here
        wait(mark)

    def synchronizing(device: Device) -> None:
        waits.found["device"] += 1
        synchronize(device)

    Mark.wait, Device.synchronize = waiting, synchronizing  # type: ignore[method-assign]
    try:
        with waits:
            yield waits.found
    finally:
        Mark.wait, Device.synchronize = wait, synchronize  # type: ignore[method-assign]
