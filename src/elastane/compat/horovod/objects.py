"""Collectives on models, optimizers and plain values: JSON and tensors, nothing is pickled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from elastane.compat.horovod.operations import checked_root
from elastane.compat.horovod.process import session
from elastane.train.errors import TrainError
from elastane.train.worker.replica_state import broadcast_packed
from elastane.train.worker.state_codec import Packed, pack, unpack


def share(packed: Packed | None, root: int) -> Packed:
    """The root's packed state, everywhere; the root gives it, the others give None."""
    received: list[Packed] = [packed] if packed is not None else []
    session().call(lambda group: received.append(broadcast_packed(group, root, packed)))
    return received[-1]


def broadcast_object(obj: Any, root_rank: int = 0, name: str | None = None) -> Any:  # noqa: ARG001
    """The root's object: numbers, text, tensors, arrays, and lists, tuples, sets and dicts of them."""
    mine = session().join().rank == checked_root(root_rank)
    packed = share(pack(obj) if mine else None, root_rank)
    return obj if mine else unpack(packed)


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """Everybody's object, in rank order."""
    return [broadcast_object(obj, root, name) for root in range(session().join().world)]


@torch.no_grad()
def broadcast_parameters(params: Mapping[str, Any] | Iterable[tuple[str, Any]], root_rank: int = 0) -> None:
    """Give these tensors (a ``state_dict()`` or ``named_parameters()``) the root's values."""
    named = dict(params.items() if isinstance(params, Mapping) else params)
    tensors = {name: value for name, value in named.items() if isinstance(value, Tensor)}
    for name, value in broadcast_object(tensors, root_rank).items():
        mine = tensors.get(name)
        if mine is None or mine.shape != value.shape:
            here = "missing" if mine is None else f"of shape {tuple(mine.shape)}"
            raise TrainError(
                f"broadcast_parameters: {name} is {here} on worker {session().membership.rank}, and of shape "
                f"{tuple(value.shape)} on worker {root_rank}"
            )
        if mine is not value:
            mine.copy_(value)


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int = 0) -> None:
    """Give this optimizer the root's state and settings."""
    state = broadcast_object(optimizer.state_dict(), root_rank)
    if session().membership.rank != root_rank:
        optimizer.load_state_dict(state)
