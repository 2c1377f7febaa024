"""``NodeSnapshots`` keeps the latest states of a job in memory of its node, which outlives the workers.

When a collective on a device breaks, it may happen that no survivor can end it, and all of them have to be killed:
what they trained since the last checkpoint would be lost.  The fork server that forks the workers therefore makes two
anonymous memory files (``coordinator.snapshot_memory``), and every worker inherits them.  The leader writes into them
in turn, much more often than to disk; whoever begins again on this node reads the newest whole one.  The memory goes
when the fork server does, so nothing is ever left behind, and a lost node loses it: checkpoints are still needed.

A slot is 8 bytes (the length of the head), the head (JSON with its own and the tensors' CRC-32), and the tensors.
The length is zero while a slot is written.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elastane.train.coordinator.snapshot_memory import inherited
from elastane.train.worker.checkpoint import Loaded
from elastane.train.worker.state_codec import Packed, nbytes

_LENGTH = struct.Struct("<Q")
_LONGEST_HEAD = 1 << 28
_PART = 0.5
"""Of the free memory may be taken."""
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, RuntimeError, AttributeError)


def offered(environment: Mapping[str, str] = os.environ) -> NodeSnapshots | None:
    """Those of this node; None in a process that was not forked from a fork server."""
    slots = inherited(environment)
    return NodeSnapshots(*slots) if slots is not None else None


class NodeSnapshots:
    """Two slots, of which one is always whole once there has been a snapshot."""

    def __init__(self, first: int, second: int) -> None:
        self._slots = (first, second)

    def save(self, step: int, packed: Packed, info: Mapping[str, Any], generation: int) -> bool:
        """Write into the older slot; False if there is no room, or a later generation has been here."""
        older, newer = sorted(self._slots, key=_place)
        size = nbytes(packed)
        if _place(newer)[0] > generation or size - os.fstat(older).st_size > _PART * _free_bytes():
            return False
        os.pwrite(older, _LENGTH.pack(0), 0)
        tensors = [_raw(tensor.contiguous()) for tensor in packed.tensors.values()]
        head = {
            "generation": generation,
            "step": step,
            "info": dict(info),
            "tree": packed.tree,
            "tensors": [[name, _dtype(t), list(t.shape)] for name, t in packed.tensors.items()],
            "crc32": _checksum(tensors),
        }
        text = json.dumps(head).encode()
        sealed = struct.pack("<I", zlib.crc32(text)) + text
        at = _LENGTH.size
        for part in (memoryview(sealed), *tensors):
            at = _write(older, part, at)
        os.ftruncate(older, at)
        os.pwrite(older, _LENGTH.pack(len(sealed)), 0)
        return True

    def load(self) -> Loaded | None:
        """The newest whole snapshot, in memory of its own; None if there is none."""
        for slot in sorted(self._slots, key=_place, reverse=True):
            with contextlib.suppress(*_UNREADABLE):
                return _read(slot)
        return None


def newest(*found: Loaded | None) -> Loaded | None:
    """Of what was read in several places: that of the latest generation, and the furthest of those."""
    there = [each for each in found if each is not None]
    return max(there, key=lambda each: (each.generation, each.step), default=None)


def _place(slot: int) -> tuple[int, int]:
    """Generation and step; before all others if it is not whole."""
    try:
        head, _ = _head(slot)
        return int(head["generation"]), int(head["step"])
    except _UNREADABLE:
        return -1, -1


def _head(slot: int) -> tuple[dict[str, Any], int]:
    (length,) = _LENGTH.unpack(os.pread(slot, _LENGTH.size, 0).ljust(_LENGTH.size, b"\0"))
    sealed = os.pread(slot, length, _LENGTH.size) if 4 < length < _LONGEST_HEAD else b""
    if not sealed or struct.pack("<I", zlib.crc32(sealed[4:])) != sealed[:4]:
        raise ValueError("the head is torn")
    head: dict[str, Any] = json.loads(sealed[4:])
    return head, _LENGTH.size + length


def _read(slot: int) -> Loaded:
    head, at = _head(slot)
    tensors: dict[str, Tensor] = {}
    for name, dtype, shape in head["tensors"]:
        tensor = torch.empty(math.prod(shape), dtype=getattr(torch, dtype))
        at = _fill(slot, _raw(tensor), at)
        tensors[name] = tensor.view(shape)
    if _checksum([_raw(tensor) for tensor in tensors.values()]) != head["crc32"]:
        raise ValueError("the tensors are torn")
    packed = Packed(tensors, head["tree"])
    return Loaded(head["step"], packed, head["info"], Path(f"/proc/self/fd/{slot}"), head["generation"])


def _raw(tensor: Tensor) -> memoryview:
    return tensor.view(-1).view(torch.uint8).numpy().data if tensor.numel() else memoryview(b"")


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _checksum(parts: list[memoryview]) -> int:
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return checksum


def _write(slot: int, part: memoryview, at: int) -> int:
    for piece in _pieces(part):
        if os.pwrite(slot, piece, at) != len(piece):
            raise OSError("no room")
        at += len(piece)
    return at


def _fill(slot: int, part: memoryview, at: int) -> int:
    for piece in _pieces(part):
        if os.preadv(slot, [piece], at) != len(piece):
            raise ValueError("the file ends too early")
        at += len(piece)
    return at


def _pieces(part: memoryview, size: int = 1 << 26) -> Iterator[memoryview]:
    return (part[at : at + size] for at in range(0, len(part), size))


def _free_bytes() -> int:
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
