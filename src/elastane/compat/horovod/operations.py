"""Collectives on tensors.  Each raises ``HorovodInternalError`` when a worker is lost meanwhile."""

from __future__ import annotations

from enum import Enum

import torch
from torch import Tensor

from elastane.compat.horovod.process import session
from elastane.train.errors import TrainError

_SUMMABLE = frozenset(
    (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int8,
        torch.uint8,
    )
)


class Operation(Enum):
    """How tensors of all workers become one."""

    AVERAGE = "average"
    SUM = "sum"


Average = Operation.AVERAGE
Sum = Operation.SUM


def chosen(average: bool | None, op: Operation | None) -> Operation:
    """``op``, or what the older argument ``average`` means."""
    if op is not None and average is not None:
        raise TrainError("allreduce: give op or average, not both")
    if op is not None and not isinstance(op, Operation):
        raise TrainError(f"allreduce: op must be hvd.Average or hvd.Sum, not {op!r}")
    return op or (Sum if average is False else Average)


def allreduce(
    tensor: Tensor, average: bool | None = None, name: str | None = None, op: Operation | None = None
) -> Tensor:
    """The mean (or sum) of everybody's tensor; ``name`` is not needed."""
    return allreduce_(tensor.detach().clone(), average, name, op)


@torch.no_grad()
def allreduce_(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,  # noqa: ARG001 (Horovod matches calls by it; here their order does)
    op: Operation | None = None,
) -> Tensor:
    """As ``allreduce``, in place; means of whole numbers are rounded down."""
    operation = chosen(average, op)
    if tensor.dtype not in _SUMMABLE:
        raise TrainError(f"allreduce: tensors of {tensor.dtype} cannot be summed")
    summed = tensor.detach().cpu().contiguous()
    session().call(lambda group: group.all_reduce(summed))
    if operation is Average:
        workers = session().membership.world
        if summed.is_floating_point():
            summed.div_(workers)
        else:
            summed.div_(workers, rounding_mode="floor")
    if summed.data_ptr() != tensor.data_ptr():
        tensor.copy_(summed)
    return tensor


@torch.no_grad()
def allgather(tensor: Tensor, name: str | None = None) -> Tensor:  # noqa: ARG001
    """Everybody's tensors in rank order, one behind the other; the first dimension may differ."""
    if not tensor.dim():
        raise TrainError("allgather: a tensor without dimensions cannot be put behind another; use t.view(1)")
    lengths = _gathered_lengths(len(tensor))
    longest = max(lengths)
    padded = torch.zeros((longest, *tensor.shape[1:]), dtype=tensor.dtype)
    padded[: len(tensor)] = tensor
    raw = _bytes(padded)
    gathered = torch.zeros(len(raw) * len(lengths), dtype=torch.uint8)
    gathered[: len(raw)] = raw
    if len(raw):
        session().call(lambda group: group.all_gather(gathered, raw))
    rows = gathered.view(tensor.dtype).view(len(lengths), *padded.shape)
    return torch.cat([row[:length] for row, length in zip(rows, lengths, strict=True)]).to(tensor.device)


def _gathered_lengths(length: int) -> list[int]:
    lengths = torch.full((session().join().world,), length)
    mine = torch.tensor([length])
    session().call(lambda group: group.all_gather(lengths, mine))
    return list(map(int, lengths))


def broadcast(tensor: Tensor, root_rank: int, name: str | None = None) -> Tensor:
    """The tensor of the worker with rank ``root_rank``, on all workers."""
    return broadcast_(tensor.detach().clone(), root_rank, name)


@torch.no_grad()
def broadcast_(tensor: Tensor, root_rank: int, name: str | None = None) -> Tensor:  # noqa: ARG001
    """As ``broadcast``, in place."""
    checked_root(root_rank)
    sent = tensor.detach().cpu().contiguous()
    if sent.numel():
        session().call(lambda group: group.broadcast(_bytes(sent), root_rank))
    if sent.data_ptr() != tensor.data_ptr():
        tensor.copy_(sent)
    return tensor


def barrier() -> None:
    """Wait until all workers have come here."""
    session().call(lambda group: group.all_reduce(torch.zeros(1)))


def checked_root(root_rank: int) -> int:
    """``root_rank``, if there is such a worker."""
    workers = session().join().world
    if not 0 <= root_rank < workers:
        raise TrainError(f"root_rank: there is no worker {root_rank} among {workers}")
    return root_rank


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.view(-1).view(torch.uint8)
