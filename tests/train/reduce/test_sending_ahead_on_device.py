"""On a device, too, sending ahead changes nothing but the time: any transport, any order that streams allow."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et
from elastane.train.device import Device
from elastane.train.reduce import mean
from elastane.train.reduce.backward_watch import BackwardWatch
from elastane.train.reduce.buckets import Bucket, buckets_of
from elastane.train.reduce.gradients import GradientLayout
from fakegpu import ranks
from fakegpu.ranks import Meeting
from train.members import become_member, nccl_like, parameters_of, staged
from train.waits import counted

GPU = Device("fakegpu", 0)
STEPS = 12
WARM = 6


def network(job: et.Job) -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)]
    return nn.Sequential(*layers).to(job.device)


def trained(rank: int, meeting: Meeting, make: Any, folder: Path, *, ahead: bool, clamps: bool) -> Any:
    """Parameters after some steps, how many buckets were sent ahead, and the waits of the last steps."""
    mean.buckets_of = lambda layout: buckets_of(layout, 0, 1000, 300)
    sent = 0
    send = mean.MeanReducer._send_ahead

    def counting(reducer: Any, *words: Any) -> None:
        nonlocal sent
        sent += 1
        send(reducer, *words)

    mean.MeanReducer._send_ahead = counting  # type: ignore[method-assign]
    if not ahead:
        mean.MeanReducer.steady = False  # type: ignore[assignment, method-assign]
    job = et.init("fixed", run=folder / f"{rank}{ahead}", checkpoint_every=3600.0)
    model = job.model(network(job), loss="mean")
    opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), max_grad_norm=1.0)
    x = torch.randn(16 * STEPS, 8, generator=torch.Generator().manual_seed(3))
    data = job.loader(TensorDataset(x, (x.sum(1) > 0).long()), batch_size=16)
    become_member(job, rank, 2, meeting, make)
    next(job.epochs(1))
    waits, batches = [], iter(data)
    for step in range(STEPS):
        with counted() as found:
            inputs, labels = next(batches)
            F.cross_entropy(model(inputs), labels).backward()
            if clamps and step > 7:
                for p in model.parameters():
                    p.grad.data.mul_(0.5)  # type: ignore[union-attr]
            opt.step()
        waits.append(dict(found))
    return [parameters_of(model), sent, waits[WARM:]]


@pytest.mark.parametrize("make", [staged, nccl_like])
@pytest.mark.parametrize("clamps", [False, True])
def test_the_result_is_that_of_a_reduction_behind_the_pass(
    fakegpu: ModuleType, make: Any, clamps: bool, tmp_path: Path
) -> None:
    def body(ahead: bool) -> Any:
        return lambda rank, meeting: trained(rank, meeting, make, tmp_path, ahead=ahead, clamps=clamps)

    first, second = ranks.run(2, body(True))
    behind, _ = ranks.run(2, body(False))
    assert first[0] == second[0] == behind[0]
    assert behind[1] == 0
    assert min(first[1], second[1]) > (20 if not clamps else 8)
    if not clamps:
        for waits in first[2]:  # of the staged transport's own thread one for each bucket of one it was sent
            through_host = {"lane", "event in staged-lane"} if make is staged else set()
            assert waits["event"] == 1
            assert waits.keys() == {"event", *through_host}


@pytest.mark.parametrize("fakegpu", ["late"], indirect=True)
@pytest.mark.parametrize("forgotten", ["", "streams"])
def test_a_bucket_comes_after_gradients_of_all_streams(
    fakegpu: ModuleType, forgotten: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two branches of a network run on streams of their own, and their gradients lie in one bucket."""

    def body(_rank: int, _meeting: Meeting) -> Any:
        if forgotten:
            monkeypatch.setattr(BackwardWatch, "_come_after", lambda *_: None)
        layers = [nn.Linear(6, 6).to("fakegpu:0") for _ in range(2)]
        layout = GradientLayout([[p for layer in layers for p in layer.parameters()]])
        hosts = [torch.full(p.shape, 7.0 + at).pin_memory() for at, p in enumerate(layout.parameters)]
        for p, host in zip(layout.parameters, hosts, strict=True):  # kernels run in the caller; copies are late
            p.register_hook(lambda g, host=host: torch.empty_like(g).copy_(host, non_blocking=True))
        whole = Bucket(0, layout.size, tuple(range(layout.count)))
        copied = layout.vector()
        on: list[torch.Stream] = []

        def send(_bucket: Bucket, gradients: Any) -> None:
            torch._foreach_copy_(copied.views, list(gradients))
            here = GPU.current_stream()
            assert here is not None
            on.append(here)

        watch = BackwardWatch(layout, [whole], send)
        streams = [torch.Stream(torch.device("fakegpu:0")) for _ in layers]
        x = torch.ones(3, 6, device="fakegpu:0")
        torch.accelerator.synchronize()
        branches = []
        for layer, stream in zip(layers, streams, strict=True):
            with stream:
                branches.append(layer(x).tanh().square().sum())
        for stream in streams:
            torch.accelerator.current_stream().wait_stream(stream)
        watch.open(sending=True)
        (branches[0] + branches[1]).backward()
        watch.close()
        assert len(on) == 1
        on[0].synchronize()
        early = copied.gradients.clone().cpu()
        torch.accelerator.synchronize()
        return torch.equal(early, torch.cat([host.reshape(-1) for host in hosts]))

    assert ranks.run(1, body) == [not forgotten]
