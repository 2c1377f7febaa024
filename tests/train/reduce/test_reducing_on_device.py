"""Reducers, buffers, fingerprints and random states give on a device, bit for bit, what they give on the CPU."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from elastane.train.adapt.preconditioner import Preconditioner
from elastane.train.data import rng
from elastane.train.device import Device
from elastane.train.reduce.contract import Shares
from elastane.train.reduce.gradients import GradientLayout
from elastane.train.reduce.mean import MeanReducer
from elastane.train.reduce.ordered import OrderedReducer
from elastane.train.worker import digest as digest_module
from elastane.train.worker.buffers import BufferKeeper
from elastane.train.worker.digest import digest, digest_there
from train.reduce.crew import Toy, bits, draw_gradients

GPU = Device("fakegpu", 0)
D = "fakegpu:0"
SHAPES = [(3, 5), (7,), (2, 2)]
SIZE = 26


def reduced(kind: Any, toy: Toy, gradients: Tensor, *settings: Any) -> bytes:
    """The mean of four units of one worker, and a tail of three numbers."""
    reducer = kind(toy.layout, *settings)
    reducer.begin(Shares((2, 3, 1, 2), (0, 0, 0, 0)), 0, False)
    for unit in range(4):
        reducer.start(unit)
        toy.backward(gradients[unit])
        reducer.finish(unit)
    reducer.tail_of(3).fill_(2.0)
    vector = reducer.reduce(None, 3)
    assert vector.tail[:3].tolist() == [2.0] * 3
    return bits(vector.gradients.cpu())


@pytest.mark.parametrize(("kind", "settings"), [(MeanReducer, ()), (OrderedReducer, (4,))])
def test_reducers(fakegpu: ModuleType, kind: Any, settings: Any) -> None:
    gradients = draw_gradients(4, SIZE, 1)
    there = Toy(SHAPES)
    there.parameters = [nn.Parameter(p.detach().to(D)) for p in there.parameters]
    there.layout = GradientLayout([there.parameters])
    assert there.layout.device == GPU
    assert reduced(kind, there, gradients.to(D), *settings) == reduced(kind, Toy(SHAPES), gradients, *settings)


def test_buffers_travel_without_the_host(fakegpu: ModuleType) -> None:
    def network() -> nn.Module:
        return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to(D)

    sender, receiver = network(), network()
    sender(torch.randn(5, 3, device=D))
    from_here, to_there = BufferKeeper(sender), BufferKeeper(receiver)
    flags, values = torch.zeros(from_here.flags), torch.zeros(from_here.size, device=D)
    from_here.keep()
    from_here.tell(flags)
    from_here.write(values)
    to_there.read(flags.tolist(), values)
    for (name, here), (_, there) in zip(sender.named_buffers(), receiver.named_buffers(), strict=True):
        assert torch.equal(here, there), name
    to_there.restore()
    assert int(receiver[1].num_batches_tracked) == 0  # type: ignore[index]


@pytest.mark.parametrize("turn", [None, 0, 3, 15])
@pytest.mark.parametrize("at_once", [digest_module.AT_ONCE, 64])
def test_fingerprints(
    fakegpu: ModuleType, turn: int | None, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest_module, "AT_ONCE", at_once)
    source = torch.Generator().manual_seed(4)
    tensors = [torch.randn(n + 1, 3, generator=source) for n in range(14)]
    there = [tensor.to(D) for tensor in tensors]
    assert tuple(digest_there(there, turn).tolist()) == digest(there, turn) == digest(tensors, turn)


def test_norms_in_the_metric_of_adam(fakegpu: ModuleType) -> None:
    found = []
    for where in ("cpu", D):
        torch.manual_seed(2)
        parameter = nn.Parameter(torch.randn(50).to(where))
        optimizer = torch.optim.Adam([parameter])
        layout = GradientLayout([[parameter]])
        for _ in range(6):
            parameter.grad = torch.randn(50).to(where)
            optimizer.step()
        metric = Preconditioner(layout, optimizer)
        metric.refresh()
        assert metric.active
        vector, other = torch.randn(50).to(where), torch.randn(50).to(where)
        asked = [(vector, vector), (vector, other)]
        found.append([metric.products(a, b) for a, b in asked])
        if where is D:
            found.append([metric.products_there(a, b).tolist() for a, b in asked])
    assert found[0] == [pytest.approx(values, rel=1e-5) for values in found[1]]
    assert found[0] == [pytest.approx(values, rel=1e-5) for values in found[2]]


def test_a_picture_of_random_states_holds_the_devices(fakegpu: ModuleType) -> None:
    rng.seed_all(5, GPU)
    picture = rng.picture(GPU)
    drawn = torch.rand(4, device=D).tolist(), torch.rand(4).tolist()
    rng.put_picture(picture, GPU)
    assert (torch.rand(4, device=D).tolist(), torch.rand(4).tolist()) == drawn
    rng.put_picture(rng.picture(), GPU)  # of a CPU: the device has no state in it
    rng.put_picture(picture, Device())
