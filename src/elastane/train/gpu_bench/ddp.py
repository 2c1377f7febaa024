"""The same models with PyTorch's own ``DistributedDataParallel``, for comparison."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from elastane.train.gpu_bench.device_ranks import Rank
from elastane.train.gpu_bench.models import BATCH, MODELS, samples

_BACKENDS = {"cpu": "gloo", "cuda": "nccl", "xpu": "xccl"}
_WARM_UP, _LOOK_EVERY = 5, 20


def without_ddp(kind: str) -> str:
    """Why there is no DDP for a kind of device, or nothing."""
    return "" if kind in _BACKENDS else f"it has no backend for {kind}"


def samples_per_s(rank: Rank, model: str, seconds: float) -> float:
    """Of all ranks together, with the same batch in all as the example job has."""
    dist.init_process_group(
        _BACKENDS[rank.device.kind], store=rank.store("ddp"), rank=rank.rank, world_size=rank.world
    )
    torch.manual_seed(0)
    here = rank.device.as_torch()
    net = nn.parallel.DistributedDataParallel(MODELS[model]().to(here))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    inputs, labels = (part.to(here) for part in samples(max(1, BATCH // rank.world)))

    def steps(count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            functional.cross_entropy(net(inputs), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        rank.device.synchronize()

    steps(_WARM_UP)
    began, made, over = time.perf_counter(), 0, torch.zeros(1, device=here)
    while not over.item():
        steps(_LOOK_EVERY)
        made += _LOOK_EVERY
        over.fill_(float(time.perf_counter() - began > seconds))
        dist.all_reduce(over)  # all stop after the same step
    rate = made * len(labels) * rank.world / (time.perf_counter() - began)
    dist.destroy_process_group()
    return rate
