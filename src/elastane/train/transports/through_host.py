"""``through_host`` makes the transport that works wherever gloo does."""

from __future__ import annotations

from elastane.train.device import Device
from elastane.train.transports.contract import HostGroup, Transport
from elastane.train.transports.gloo_cpu import GlooCpu
from elastane.train.transports.staged import Staged


def through_host(group: HostGroup, device: Device) -> Transport:
    """Gradients of a CPU where they lie, those of a device through memory of the host."""
    return GlooCpu(group) if device.is_cpu else Staged(group, device)
