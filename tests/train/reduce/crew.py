"""Workers as threads of one process, connected by real gloo groups."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import AllgatherOptions, AllToAllOptions

from elastane.train.errors import MembershipChanged
from elastane.train.reduce.contract import Collective, Reducer, Shares
from elastane.train.reduce.gradients import GradientLayout, GradientVector

Result = TypeVar("Result")


class Gloo:
    """A ``Collective`` over a raw gloo backend."""

    def __init__(self, store: dist.Store, rank: int, world: int) -> None:
        self.rank = rank
        self.world = world
        self._backend: Any = dist.ProcessGroupGloo(store, rank, world, timedelta(seconds=60))

    def all_reduce(self, tensor: Tensor) -> None:
        self._backend.allreduce([tensor]).wait()

    def all_gather(self, output: Tensor, tensor: Tensor) -> None:
        self._backend._allgather_base(output, tensor, AllgatherOptions()).wait()

    def all_to_all(
        self, output: Tensor, tensor: Tensor, output_splits: Sequence[int], input_splits: Sequence[int]
    ) -> None:
        options = AllToAllOptions()
        self._backend.alltoall_base(output, tensor, list(output_splits), list(input_splits), options).wait()


class Breaking:
    """A collective that breaks at its n-th operation, on every rank alike."""

    def __init__(self, group: Collective, survives: int) -> None:
        self.rank = group.rank
        self.world = group.world
        self._group = group
        self._left = survives

    def _count(self) -> None:
        if not self._left:
            raise MembershipChanged("a member died")
        self._left -= 1

    def all_reduce(self, tensor: Tensor) -> None:
        self._group.all_reduce(tensor)
        self._count()

    def all_gather(self, output: Tensor, tensor: Tensor) -> None:
        self._group.all_gather(output, tensor)
        self._count()

    def all_to_all(
        self, output: Tensor, tensor: Tensor, output_splits: Sequence[int], input_splits: Sequence[int]
    ) -> None:
        self._group.all_to_all(output, tensor, output_splits, input_splits)
        self._count()


class Crew:
    """A fixed number of workers; ``run`` lets all of them do something at the same time."""

    def __init__(self, world: int) -> None:
        self._threads = ThreadPoolExecutor(world)
        store = dist.HashStore()
        self.groups = list(self._threads.map(lambda rank: Gloo(store, rank, world), range(world)))

    def run(self, work: Callable[[Gloo], Result]) -> list[Result]:
        futures = [self._threads.submit(work, group) for group in self.groups]
        return [future.result(timeout=60) for future in futures]


@functools.cache
def crew(world: int) -> Crew:
    """Groups are made once: that takes longer than most tests."""
    return Crew(world)


class Toy:
    """Parameters of some shapes, and a way to give them a unit's gradient as backward would."""

    def __init__(self, shapes: Sequence[tuple[int, ...]], dtype: torch.dtype = torch.float32) -> None:
        self.parameters = [nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in shapes]
        self.layout = GradientLayout([self.parameters])

    def backward(self, gradient: Tensor) -> None:
        parts = torch.split(gradient, [p.numel() for p in self.parameters])
        for parameter, part in zip(self.parameters, parts, strict=True):
            # Accumulated as autograd does it: a leftover from another unit would show.
            fresh = part.view(parameter.shape).clone()
            parameter.grad = fresh if parameter.grad is None else parameter.grad + fresh


def compute(reducer: Reducer, toy: Toy, units: Sequence[int], gradients: Tensor) -> None:
    """Run these units."""
    for unit in units:
        reducer.start(unit)
        toy.backward(gradients[unit])
        reducer.finish(unit)


def step(
    reducer: Reducer,
    toy: Toy,
    shares: Shares,
    group: Collective | None,
    gradients: Tensor,
    tail: Sequence[float] = (),
    again: bool = False,
) -> GradientVector:
    """A whole step of one worker."""
    rank = group.rank if group is not None else 0
    reducer.begin(shares, rank, again)
    compute(reducer, toy, [u for u in shares.owned_by(rank) if u not in reducer.finished], gradients)
    reducer.tail_of(len(tail)).copy_(torch.tensor(tail, dtype=toy.layout.dtype))
    return reducer.reduce(group, len(tail))


def bits(tensor: Tensor) -> bytes:
    """What must be equal: zeros of different sign are not."""
    return tensor.detach().contiguous().numpy().tobytes()


def draw_gradients(units: int, size: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Numbers of very different size, so that the order of a sum shows; among them both zeros."""
    source = torch.Generator().manual_seed(seed)
    values = torch.randn(units, size, generator=source, dtype=torch.float64)
    values *= 2.0 ** torch.randint(-12, 12, (units, size), generator=source)
    values[torch.rand(units, size, generator=source) < 0.1] = -0.0
    return values.to(dtype)
