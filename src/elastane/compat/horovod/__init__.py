"""Horovod's interface for PyTorch, without Horovod: ``import elastane.compat.horovod as hvd``.

The same script runs alone, under torchrun and under ``elastane train``; with ``hvd.elastic.run`` workers may come
and go.  Three things differ.  Objects travel as JSON and tensors, never pickled, so ``broadcast_object`` and
``elastic.State`` carry numbers, text, tensors, and lists and dicts of them, and refuse the rest by name.  Gradients
are averaged in ``step()``, in one piece.  Whoever has committed most is the one that others take their state from,
be it rank 0 or not.

Not there: process sets, Adasum, asynchronous handles, ``join()``, ``alltoall`` and ``reducescatter``.
"""

from __future__ import annotations

from elastane.compat.horovod import elastic
from elastane.compat.horovod.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from elastane.compat.horovod.objects import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from elastane.compat.horovod.operations import (
    Average,
    Operation,
    Sum,
    allgather,
    allreduce,
    allreduce_,
    barrier,
    broadcast,
    broadcast_,
)
from elastane.compat.horovod.optimizer import Compression, DistributedOptimizer
from elastane.compat.horovod.process import (
    init,
    is_initialized,
    local_rank,
    local_size,
    rank,
    shutdown,
    size,
)

__all__ = [
    "Average",
    "Compression",
    "DistributedOptimizer",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "Operation",
    "Sum",
    "allgather",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "elastic",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "rank",
    "shutdown",
    "size",
]
