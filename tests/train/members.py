"""Workers on pretend GPUs, as processes of one test: each with a job of its own, connected by a transport."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

import elastane.train as et
from elastane.train.device import Device
from elastane.train.transports import NcclLike, Staged, Transport
from elastane.train.worker.group import Group
from fakegpu import ranks
from fakegpu.comm import Communicator, Faults
from fakegpu.ranks import Meeting

GPU = Device("fakegpu", 0)
NO_FAULTS = Faults()
Make = Callable[[Group, Meeting], Transport]


def staged(group: Group, _meeting: Meeting) -> Transport:
    """Through memory of the host, in several buckets."""
    return Staged(group, GPU, bucket_bytes=1000)


def nccl_like(group: Group, meeting: Meeting) -> Transport:
    """Over a pretend communicator."""
    backend = Communicator(meeting.store("nccl"), group.rank, group.world, NO_FAULTS)
    transport = NcclLike(backend, group.rank, group.world, GPU, lambda _: ranks.die())
    transport.connect()
    transport.enter()
    return transport


def become_member(job: et.Job, rank: int, world: int, meeting: Meeting, make: Make) -> Transport:
    """Train with the others of this meeting."""
    m: Any = job._session.membership
    group = Group(rank, world, meeting, host="127.0.0.1")
    m.rank, m.world = rank, world
    transport = make(group, meeting)
    m._use(group, transport)
    return transport


def parameters_of(model: nn.Module) -> list[list[float]]:
    """Every number of a model, on the host."""
    return [tensor.detach().cpu().reshape(-1).tolist() for tensor in model.state_dict().values()]
