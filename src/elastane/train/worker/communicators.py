"""A worker tells of its device, and gets the communicator that a plan asks for."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass

import torch

from elastane.train.coordinator.device_locks import CLAIMED
from elastane.train.device import Device
from elastane.train.transport_choice import MemberDevice
from elastane.train.transports import NamedExchange, NamedStore, NcclLike, nccl
from elastane.train.worker.group import Group

_STORE_S = 60.0


@dataclass(slots=True)
class Connected:
    """What the members of one generation are connected by: their group, and a communicator if the plan has one."""

    group: Group | None
    communicator: NcclLike | None = None

    def kill(self) -> None:
        """End whatever is under way; harmless to repeat."""
        if self.communicator is not None:
            self.communicator.abort()
        if self.group is not None:
            self.group.kill()

    def retire(self) -> None:
        """Nobody uses it any more."""
        if self.communicator is not None:
            self.communicator.close()
        if self.group is not None:
            self.group.retire()


def told_of(device: Device, host: str) -> MemberDevice:
    """What the coordinator has to know to choose a transport."""
    if device.is_cpu:
        return MemberDevice(host)
    uuid = _uuid(device)
    return MemberDevice(host, device.kind, uuid, "MIG" in uuid, nccl.lacking(device.kind))


def communicator(device: Device, exchange: NamedExchange, rank: int, world: int) -> NcclLike:
    """One that has not connected yet; raises NoTransport if there is none for this device."""
    nccl.prepare(os.environ)
    store = NamedStore(exchange, _STORE_S)
    backend = nccl.process_group(device.kind, store, rank, world)
    return NcclLike(backend, rank, world, device, _give_up, store=store)


def _give_up(why: str) -> None:
    """No thread of this process can reach the device any more: the others go on without it."""
    print(f"elastane: error: {why}; this worker gives itself up", file=sys.stderr, flush=True)  # noqa: T201
    os.kill(os.getpid(), signal.SIGKILL)


def _uuid(device: Device) -> str:
    """Of the physical device; empty if it cannot be told."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if visible.startswith("MIG-"):
        return visible.split(",")[device.index]
    properties = getattr(torch.get_device_module(device.as_torch()), "get_device_properties", None)
    found = getattr(properties(device.index), "uuid", None) if properties is not None else None
    if found is not None:
        return str(found)
    claimed = os.environ.get(CLAIMED, "").split(",")  # not every maker's driver tells one
    return claimed[device.index] if device.index < len(claimed) else ""
