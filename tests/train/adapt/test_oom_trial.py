"""Trying a batch: it tells whether it fits, and nothing is different afterwards."""

from __future__ import annotations

import random
from collections import namedtuple
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from elastane.train.adapt.oom_trial import is_out_of_memory, memory_besides, repeated, try_batch
from elastane.train.device import Device
from elastane.train.errors import TrainError

Pair = namedtuple("Pair", ["left", "right"])


class Limited(nn.Module):
    """Runs out of memory above a number of samples, as a real device would say it."""

    def __init__(self, capacity: int, error: Exception, in_backward: bool = False) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
        self.capacity, self.error, self.in_backward = capacity, error, in_backward
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(len(x))
        random.random()
        np.random.random()
        if len(x) > self.capacity and not self.in_backward:
            raise self.error
        out: Tensor = self.body(x)
        if len(x) > self.capacity:
            out.register_hook(self.fail)  # type: ignore[no-untyped-call]
        return out

    def fail(self, _: Tensor) -> None:
        raise self.error


def _numpy_state() -> list[int]:
    state = np.random.get_state(legacy=False)
    assert isinstance(state, dict)
    return [*state["state"]["key"].tolist(), state["state"]["pos"]]


ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    MemoryError(),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 80 bytes"),
    RuntimeError("HIP error: out of memory"),
]


@pytest.mark.parametrize("in_backward", [False, True])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_lack_of_memory_is_told_wherever_and_however_it_shows(error: Exception, in_backward: bool) -> None:
    model = Limited(40, error, in_backward)
    inputs = (torch.randn(8, 3),)
    assert try_batch(model, inputs, 40)
    assert not try_batch(model, inputs, 41)
    assert model.seen == [40, 41]


@pytest.mark.parametrize("capacity", [100, 10])
def test_nothing_is_different_afterwards(capacity: int) -> None:
    torch.manual_seed(0)
    model = Limited(capacity, MemoryError())
    gradients = [torch.randn_like(p) for p in model.parameters()]
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        parameter.grad = gradient
    copies = [(p, p.detach().clone(), p.grad, p.grad.clone()) for p in model.parameters() if p.grad is not None]
    buffers = {name: (buffer, buffer.clone()) for name, buffer in model.named_buffers()}
    states = torch.get_rng_state(), random.getstate(), _numpy_state()
    try_batch(model, torch.randn(8, 3, generator=torch.Generator()), 64)
    for parameter, value, gradient, content in copies:
        assert torch.equal(parameter, value)
        assert parameter.grad is gradient
        assert torch.equal(gradient, content)
    for name, buffer in model.named_buffers():
        assert buffer is buffers[name][0]
        assert torch.equal(buffer, buffers[name][1])
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert _numpy_state() == states[2]


def test_a_buffer_that_forward_replaces_is_put_back_as_well() -> None:
    class Counting(nn.Linear):
        calls: Tensor

        def __init__(self) -> None:
            super().__init__(2, 2)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.calls = self.calls + 1
            return super().forward(x)

    model = Counting()
    before = model.calls
    assert try_batch(model, torch.ones(2, 2), 8)
    assert model.calls is before
    assert float(before) == 0.0


def test_hooks_that_wait_for_gradients_are_not_woken() -> None:
    model = nn.Linear(2, 2)
    woken: list[Tensor] = []
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(woken.append)  # type: ignore[no-untyped-call]
    assert try_batch(model, torch.ones(2, 2), 8)
    assert not woken


@pytest.mark.parametrize("capacity", [100, 10])
def test_the_caller_may_restore_things_of_his_own(capacity: int) -> None:
    calls: list[str] = []
    try_batch(Limited(capacity, MemoryError()), torch.ones(4, 3), 50, restore=lambda: calls.append("restored"))
    assert calls == ["restored"]


def test_other_errors_are_not_taken_for_a_lack_of_memory() -> None:
    model = Limited(10, RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError, match="shapes do not match"):
        try_batch(model, torch.ones(4, 3), 50)
    assert not is_out_of_memory(ValueError("out of memory"))


def test_inputs_of_any_shape_are_repeated_to_the_size() -> None:
    x = torch.arange(3)
    mask = torch.eye(5)
    value: Any = repeated(
        {"a": (x, [x + 10]), "b": Pair(x.view(3, 1), mask), "c": "text", "d": torch.tensor(7)}, 7
    )
    assert value["a"][0].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert value["a"][1][0].tolist() == [10, 11, 12, 10, 11, 12, 10]
    assert isinstance(value["b"], Pair)
    assert value["b"].left.shape == (7, 1)
    assert value["b"].right is mask
    assert value["c"] == "text"
    assert int(value["d"]) == 7


def test_mappings_become_keywords_and_mapped_outputs_are_summed() -> None:
    class Keyworded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2)
            self.backward_done = False

        def forward(self, x: Tensor, *, scale: float) -> dict[str, Any]:
            out = self.inner(x) * scale
            out.register_hook(self.note)
            return {"logits": out, "index": torch.arange(3), "nested": [out, (out,)]}

        def note(self, _: Tensor) -> None:
            self.backward_done = True

    model = Keyworded()
    assert try_batch(model, {"x": torch.ones(2, 2), "scale": 2.0}, 6)
    assert model.backward_done


def test_inputs_without_samples_are_a_clear_error() -> None:
    with pytest.raises(TrainError, match="no tensor"):
        repeated(("text", 3), 8)


@pytest.mark.parametrize("fakegpu", ["late"], indirect=True)
def test_on_a_device_room_is_left_and_its_random_numbers_stay(
    fakegpu: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKEGPU_MEMORY_MB", "64")
    device = Device("fakegpu", 0)
    device.seed(3)
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5)).to(device.as_torch())
    inputs = torch.ones(2, 3, device=device.as_torch())
    before = device.rng_state()
    fits = [try_batch(model, inputs, 4, reserve=mebibytes << 20) for mebibytes in (0, 16, 128)]
    assert fits == [True, True, False]
    assert torch.equal(device.rng_state(), before)
    assert all(p.grad is None for p in model.parameters())
    assert torch.ones(1, device=device.as_torch()).item() == 1.0


def test_the_room_is_for_a_second_vector_and_a_communicator() -> None:
    assert memory_besides(1000, communicator=False) == 8000
    assert memory_besides(0, communicator=True) >= 688 << 20
