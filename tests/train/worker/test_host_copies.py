"""State on a device: copied beside the training, saved and restored on any device, sent from one to another."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from elastane.train.device import Mark
from elastane.train.worker.async_save import AsyncSaver
from elastane.train.worker.checkpoint import FolderCheckpointStore
from elastane.train.worker.host_copies import HostCopies, copy_to_host, on_host
from elastane.train.worker.replica_state import TrainingState
from elastane.train.worker.state_codec import clone_tensors, nbytes, pack, unpack

D = "fakegpu"
on_late = pytest.mark.parametrize("fakegpu", ["late"], indirect=True)
as_it_is = pytest.mark.parametrize("mutated", [False, True], ids=["as it is", "mutant"])


def test_tensors_of_the_host_are_not_copied_to_be_sent() -> None:
    tensor = torch.arange(6.0)
    assert on_host([tensor])[0].data_ptr() == tensor.data_ptr()
    copies = copy_to_host([tensor])
    copies.hold_back()
    copies.wait()
    assert copies.copying_s() == 0.0
    assert not copies.tensors[0].is_pinned()


def test_a_copy_is_pinned_and_has_the_values_of_its_moment(fakegpu: ModuleType) -> None:
    there, beside, here = torch.ones(5, device=D), torch.ones(2, 3, device="fakegpu:1"), torch.ones(4)
    copies = copy_to_host([there, beside.t(), here])
    copies.hold_back()
    for tensor in (there, beside, here):
        tensor.add_(1)
    copies.wait()
    assert all(bool((copy == 1).all()) for copy in copies.tensors)
    assert [copy.is_pinned() for copy in copies.tensors] == [True, True, False]
    assert [tuple(copy.shape) for copy in copies.tensors] == [(5,), (3, 2), (4,)]
    assert torch.equal(on_host([there])[0], torch.full((5,), 2.0))


@on_late
@as_it_is
def test_without_its_event_a_copy_is_torn(
    fakegpu: ModuleType, monkeypatch: pytest.MonkeyPatch, mutated: bool
) -> None:
    if mutated:
        monkeypatch.setattr(HostCopies, "hold_back", lambda _: None)
    there = torch.ones(5, device=D)
    copies = copy_to_host([there])
    copies.hold_back()
    there.add_(1)
    copies.wait()
    assert bool((copies.tensors[0] == 1).all()) is not mutated


@on_late
@as_it_is
def test_a_copy_comes_after_what_the_training_has_begun(
    fakegpu: ModuleType, monkeypatch: pytest.MonkeyPatch, mutated: bool
) -> None:
    there, new = torch.zeros(5, device=D), torch.ones(5).pin_memory()
    torch.accelerator.synchronize()
    there.copy_(new, non_blocking=True)
    if mutated:
        monkeypatch.setattr(Mark, "hold_back", lambda *_: None)
    copies = copy_to_host([there])
    copies.wait()
    assert bool((copies.tensors[0] == 1).all()) is not mutated


@on_late
@as_it_is
def test_what_is_freed_while_it_is_copied_is_not_given_to_others(
    fakegpu: ModuleType, monkeypatch: pytest.MonkeyPatch, mutated: bool
) -> None:
    there = torch.full((64,), 5.0, device=D)
    torch.accelerator.synchronize()
    if mutated:
        monkeypatch.setattr(Tensor, "record_stream", lambda *_: None)
    copies = copy_to_host([there])
    del there
    torch.zeros(64, device=D).add_(1)
    copies.wait()
    assert bool((copies.tensors[0] == 5).all()) is not mutated


def test_room_is_used_again(fakegpu: ModuleType) -> None:
    first = clone_tensors(pack({"w": torch.ones(8, device=D), "x": torch.ones(8)}))
    second = clone_tensors(first)  # as room for what comes next
    assert second.tensors["w"].is_pinned()
    third = clone_tensors(pack({"w": torch.zeros(8, device=D), "x": torch.zeros(8)}), into=second)
    assert third.tensors["w"] is second.tensors["w"]
    assert third.tensors["x"] is second.tensors["x"]
    assert not third.tensors["w"].any()


def test_tied_weights_on_a_device_stay_tied_and_travel_once(fakegpu: ModuleType) -> None:
    weight = torch.randn(3, 2).to(D)
    state = {"a": weight, "b": weight, "c": weight.view(3, 2), "d": weight.clone()}
    packed = pack(state)
    assert nbytes(packed) == 2 * weight.nbytes
    back = unpack(clone_tensors(packed))
    assert back["a"] is back["b"] is back["c"]
    assert back["a"] is not back["d"]
    assert torch.equal(back["a"], weight.cpu())


def test_odd_tensors_of_a_device_come_back(fakegpu: ModuleType) -> None:
    pairs = torch.arange(12.0).view(3, 4)
    state = {
        "turned": pairs.t().to(D).t(),
        "part": pairs.to(D)[:, ::2],
        "complex": torch.complex(pairs, -pairs).to(D),
        "whole": torch.arange(3, device=D),
        "flag": torch.tensor(True, device=D),
        "none": torch.empty(0, 2, device=D),
    }
    back = unpack(clone_tensors(pack(state)))
    for name, tensor in state.items():
        assert back[name].dtype == tensor.dtype
        assert torch.equal(back[name], tensor.cpu())


class Seen(nn.Module):
    """Adds up what it has seen in a buffer."""

    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(x.detach()[0])
        return x


class Replica:
    """A small training: weights tied, buffers that forwards change, Adam."""

    def __init__(self, device: str, seed: int = 1, **kinds: Any) -> None:
        torch.manual_seed(seed)
        first, last = nn.Linear(4, 4).to(device), nn.Linear(4, 4).to(device)
        last.weight = first.weight
        self.model = nn.Sequential(first, Seen().to(device), last)
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-2, **kinds)
        self.state = TrainingState()
        self.state.model, self.state.optimizer = self.model, self.optimizer
        self.device = device

    def train(self, steps: int) -> None:
        for step in range(steps):
            x = torch.randn(8, 4, generator=torch.Generator().manual_seed(step)).to(self.device)
            self.optimizer.zero_grad()
            self.model(x).square().sum().backward()
            self.optimizer.step()

    def bits(self) -> list[Tensor]:
        states = (self.optimizer.state[p] for p in self.model.parameters())
        tensors = [*self.model.state_dict().values(), *(t for state in states for t in state.values())]
        return [tensor.detach().cpu().clone() for tensor in tensors]


def equal(a: list[Tensor], b: list[Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("kinds", [{}, {"capturable": True}], ids=["plain", "capturable"])
@pytest.mark.parametrize(("source", "target"), [(D, "cpu"), ("cpu", D), (D, D)])
def test_a_checkpoint_knows_no_device(
    fakegpu: ModuleType, tmp_path: Path, source: str, target: str, kinds: dict[str, Any]
) -> None:
    if kinds.get("capturable") and "cpu" in (source, target):
        kinds = {}  # which a CPU does not have
    first, second = Replica(source, **kinds), Replica(target, 2, **kinds)
    first.train(3)
    saver = AsyncSaver(FolderCheckpointStore(tmp_path))
    saver.prepare(first.state.take())
    for step in (1, 2):
        assert saver.submit(step, first.state.take(), {})
        kept = first.bits()
        first.train(1)
        saver.flush()
    loaded = saver.store.load()
    assert loaded is not None
    assert {t.device.type for t in loaded.packed.tensors.values()} == {"cpu"}
    second.state.put(loaded.packed)
    assert equal(second.bits(), kept)
    second.train(1)
    assert equal(second.bits(), first.bits())
    moments = [
        v for p in second.model.parameters() for k, v in second.optimizer.state[p].items() if k != "step"
    ]
    assert {v.device.type for v in moments} == {target}
    counts = {second.optimizer.state[p]["step"].device.type for p in second.model.parameters()}
    assert counts == ({target} if kinds.get("capturable") else {"cpu"})
    assert second.model[0].weight is second.model[2].weight


@on_late
@as_it_is
def test_the_training_goes_on_only_behind_the_copy_of_a_checkpoint(
    fakegpu: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutated: bool
) -> None:
    replica, gone_on, wait = Replica(D), threading.Event(), HostCopies.wait
    replica.train(2)
    saver = AsyncSaver(FolderCheckpointStore(tmp_path))

    def wait_late(copies: HostCopies) -> None:
        assert gone_on.wait(30)
        wait(copies)

    monkeypatch.setattr(HostCopies, "wait", wait_late)
    if mutated:
        monkeypatch.setattr(HostCopies, "hold_back", lambda _: None)
    kept = replica.bits()
    assert saver.submit(1, replica.state.take(), {})
    with torch.no_grad():
        for parameter in replica.model.parameters():
            parameter.add_(1)
    gone_on.set()
    saver.flush()
    monkeypatch.setattr(HostCopies, "wait", wait)
    loaded, other = saver.store.load(), Replica("cpu")
    assert loaded is not None
    other.state.put(loaded.packed)
    assert equal(other.bits(), kept) is not mutated
    assert saver.last is not None
    assert saver.last.blocking_s >= saver.device_s > 0.0


class Wire:
    """A broadcast between two threads that takes tensors of the host only."""

    def __init__(self, rank: int, sent: deque[Any]) -> None:
        self.rank = rank
        self._sent = sent

    def broadcast(self, tensor: Tensor, root: int) -> None:
        if self.rank == root:
            self._sent.append(tensor.numpy().copy())
        else:
            tensor.copy_(torch.from_numpy(self._sent.popleft()))

    def broadcast_bytes(self, data: bytes | None, root: int) -> bytes:
        if self.rank == root:
            self._sent.append(data)
            assert data is not None
            return data
        received: bytes = self._sent.popleft()
        return received


@pytest.mark.parametrize("kinds", [{}, {"capturable": True}], ids=["plain", "capturable"])
def test_a_replica_on_a_device_takes_over_the_state_of_another(
    fakegpu: ModuleType, kinds: dict[str, Any]
) -> None:
    first, second, sent = Replica(D, **kinds), Replica("fakegpu:1", 2, **kinds), deque[Any]()
    first.train(2)
    first.state.share(Wire(0, sent), 0)
    second.state.share(Wire(1, sent), 0)
    assert not sent
    assert equal(first.bits(), second.bits())
    for replica in (first, second):
        replica.train(2)
    assert equal(first.bits(), second.bits())


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
