"""A ``BatchMover`` copies batches to the device one ahead: the next travels while the script computes on this one.

The copy runs on a stream of its own, from pinned memory.  The script's stream waits for it before it sees the
batch, and the batch's memory is recorded on that stream: the allocator must not reuse it while either still
works on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from torch import Tensor

from elastane.train.device import Device, Mark
from elastane.train.device_checks import tensors_in


class Travelling:
    """A batch under way to the device."""

    def __init__(self, batch: Any, device: Device, copied: Mark | None) -> None:
        self._batch, self._device, self._copied = batch, device, copied

    def arrived(self) -> Any:
        """The batch, for the stream that the calling thread works on; the host does not wait."""
        here = self._device.current_stream()
        if self._copied is not None and here is not None:
            self._copied.hold_back(here)
            for tensor in tensors_in(self._batch):
                if tensor.device.type == self._device.kind:
                    tensor.record_stream(here)
        return self._batch


class BatchMover:
    """Moves batches of any structure to one device; on a CPU it hands them on as they are."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._stream = device.new_stream()

    def start(self, batch: Any) -> Travelling:
        """Begin to copy a batch; for callers that decide themselves what comes next."""
        if self._stream is None:
            return Travelling(batch, self._device, None)
        with self._stream:
            there = moved_to(batch, self._device)
        return Travelling(there, self._device, self._device.mark(self._stream))

    def moved(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The same batches on the device; one more than asked for has been taken from ``batches``, except on a CPU."""
        if self._device.is_cpu:
            yield from batches
            return
        ahead: Travelling | None = None
        for batch in batches:
            started = self.start(batch)
            if ahead is not None:
                yield ahead.arrived()
            ahead = started
        if ahead is not None:
            yield ahead.arrived()


def moved_to(value: Any, device: Device) -> Any:
    """The same structure with every tensor on the device; what is no tensor stays what it is."""
    if isinstance(value, Tensor):
        return _one(value, device)
    if isinstance(value, Mapping):
        parts = {key: moved_to(part, device) for key, part in value.items()}
        return parts if type(value) is dict else _like(value, parts)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(moved_to(part, device) for part in value))
    if isinstance(value, (list, tuple)):
        return type(value)(moved_to(part, device) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        changed = {f.name: moved_to(getattr(value, f.name), device) for f in fields(value) if f.init}
        return replace(value, **changed)
    return value


def _like(value: Mapping[Any, Any], parts: dict[Any, Any]) -> Any:
    try:
        return type(value)(parts)  # type: ignore[call-arg]
    except TypeError:
        return parts


def _one(tensor: Tensor, device: Device) -> Tensor:
    if device.is_cpu or tensor.device.type != "cpu":
        return tensor.to(device.as_torch())
    pinned = tensor if tensor.is_pinned() else tensor.pin_memory()
    return pinned.to(device.as_torch(), non_blocking=True)
