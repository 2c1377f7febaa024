"""Copies of tensors in the host's memory; those of a device are made beside its work.

A copy from a device goes to pinned memory on a side stream, one event for all of it: the host does not wait until
somebody needs the bytes, and the training's own stream waits only where it would overwrite what is being copied
(``hold_back``).  Pinned memory is PyTorch's, which keeps freed blocks for the next copy.  Tensors of the host are
copied at once, as ever.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat

import torch
from torch import Tensor

from elastane.train.device import Device, Mark


@dataclass(frozen=True, slots=True)
class _Leg:
    """The copying from one device: ``began`` and ``done`` are marks on the side stream."""

    device: Device
    began: Mark
    done: Mark


@dataclass(frozen=True, slots=True)
class HostCopies:
    """Tensors of the host that are, or will be, copies."""

    tensors: tuple[Tensor, ...]
    _legs: tuple[_Leg, ...] = ()

    def wait(self) -> None:
        """Until the bytes are there; the host stands still."""
        for leg in self._legs:
            leg.done.wait()

    def hold_back(self) -> None:
        """What the current streams get from now on comes after the copying; the host does not wait."""
        for leg in self._legs:
            leg.done.hold_back(leg.device.current_stream())

    def copying_s(self) -> float:
        """Seconds that the devices' copying took; waits for its end."""
        return sum(leg.done.since(leg.began) for leg in self._legs)


def copy_to_host(tensors: Sequence[Tensor], into: Iterable[Tensor | None] = repeat(None)) -> HostCopies:
    """Copy tensors of any device; a tensor of ``into`` that fits is overwritten and used again."""
    targets = [_room(tensor, old) for tensor, old in zip(tensors, into, strict=False)]
    away: dict[Device, list[tuple[Tensor, Tensor]]] = {}
    for target, tensor in zip(targets, tensors, strict=True):
        if _is_away(tensor):
            away.setdefault(_home(tensor), []).append((target, tensor.detach()))
        else:
            target.copy_(tensor.detach())
    return HostCopies(tuple(targets), tuple(_copied_down(device, pairs) for device, pairs in away.items()))


def on_host(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Contiguous tensors of the host with these values: the same where they are that already, else copies."""
    away = copy_to_host([tensor for tensor in tensors if _is_away(tensor)])
    away.wait()
    copies = iter(away.tensors)
    return [next(copies) if _is_away(tensor) else tensor.detach().contiguous() for tensor in tensors]


def _copied_down(device: Device, pairs: Sequence[tuple[Tensor, Tensor]]) -> _Leg:
    side = _side_stream(device)
    sources = [source.contiguous() for _, source in pairs]
    device.mark().hold_back(side)
    began = device.mark(side)
    with side:
        for (target, _), source in zip(pairs, sources, strict=True):
            target.copy_(source, non_blocking=True)
            source.record_stream(side)  # so that nobody gets its memory before it has been read
    return _Leg(device, began, device.mark(side))


@functools.cache
def _side_stream(device: Device) -> torch.Stream:
    stream = device.new_stream()
    assert stream is not None
    return stream


def _is_away(tensor: Tensor) -> bool:
    return tensor.device.type not in ("cpu", "meta")


def _home(tensor: Tensor) -> Device:
    return Device(tensor.device.type, tensor.device.index or 0)


def _room(tensor: Tensor, old: Tensor | None) -> Tensor:
    here = not _is_away(tensor)
    wanted = (tensor.shape, tensor.dtype, "cpu")
    if old is not None and (old.shape, old.dtype, old.device.type) == wanted and (here or old.is_pinned()):
        return old
    # A copy of what is pinned is the room for what comes from a device next.
    pinned = not here or (tensor.device.type == "cpu" and tensor.is_pinned())
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=pinned)
