"""The pretend GPU has the manners of one; without that, what is tested on it would prove nothing."""

from __future__ import annotations

import ctypes
import os
import signal
from types import ModuleType

import pytest
import torch
from torch import nn

on_late = pytest.mark.parametrize("fakegpu", ["late"], indirect=True)
on_eager = pytest.mark.parametrize("fakegpu", ["eager"], indirect=True)
D = "fakegpu"


def in_child(body: object) -> int:
    """How a forked process ended: 0, 3 for an exception, or minus a signal."""
    pid = os.fork()
    if not pid:
        try:
            body()  # type: ignore[operator]
        except BaseException:
            os._exit(3)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def current() -> torch.Stream:
    return torch.accelerator.current_stream()


@on_eager
def test_asking_for_devices_initialises_none(fakegpu: ModuleType) -> None:
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == 2
    assert str(torch.accelerator.current_accelerator()) == D
    assert not fakegpu.is_initialized()
    assert in_child(lambda: torch.ones(2, device=D).sum().item()) == 0


@on_eager
def test_a_device_in_use_does_not_survive_a_fork(fakegpu: ModuleType) -> None:
    torch.ones(2, device=D)
    assert in_child(lambda: torch.ones(2, device=D)) == 3


@on_eager
def test_the_host_cannot_touch_its_memory(fakegpu: ModuleType) -> None:
    assert (
        in_child(lambda: ctypes.c_float.from_address(torch.ones(4, device=D).data_ptr()).value)
        == -signal.SIGSEGV
    )
    with pytest.raises(TypeError):
        torch.ones(2, device=D).numpy()


@on_eager
def test_memory_runs_out_and_is_usable_afterwards(fakegpu: ModuleType) -> None:
    free, total = torch.accelerator.get_memory_info()
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(total + 1, dtype=torch.uint8, device=D)
    assert torch.ones(2, device=D).sum().item() == 2
    assert torch.accelerator.get_memory_info() == (free, total)


def test_fresh_memory_is_poisoned(fakegpu: ModuleType) -> None:
    assert torch.empty(3, device=D).cpu().isnan().all()


def test_training_gives_the_bits_of_the_cpu(fakegpu: ModuleType) -> None:
    def trained(device: str) -> torch.Tensor:
        torch.manual_seed(0)
        head = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)]
        net = nn.Sequential(*head).to(device)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        x = torch.randn(5, 1, 8, 8, generator=torch.Generator().manual_seed(1)).to(device, non_blocking=True)
        y = torch.tensor([0, 1, 2, 0, 1]).to(device)
        for _ in range(3):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
        return torch.cat([p.detach().cpu().flatten() for p in net.parameters()])

    assert torch.equal(trained("cpu"), trained(D))


@on_late
def test_a_pinned_copy_is_there_only_after_its_event(fakegpu: ModuleType) -> None:
    host, there = torch.zeros(3).pin_memory(), torch.full((3,), 7.0, device=D)
    host.copy_(there, non_blocking=True)
    event = torch.Event(D)
    event.record()
    assert host.tolist() == [0, 0, 0]
    event.synchronize()
    assert host.tolist() == [7, 7, 7]


@on_late
@pytest.mark.parametrize("waits", [False, True])
def test_a_snapshot_on_another_stream_is_torn_unless_the_main_stream_waits(
    fakegpu: ModuleType, waits: bool
) -> None:
    parameter, host, side = torch.ones(4, device=D), torch.zeros(4).pin_memory(), torch.Stream(D)
    torch.accelerator.synchronize()
    with side:
        host.copy_(parameter, non_blocking=True)
    if waits:
        current().wait_stream(side)
    parameter.add_(1)
    side.synchronize()
    assert host.tolist() == [1 if waits else 2] * 4


@on_late
@pytest.mark.parametrize("recorded", [False, True])
def test_a_tensor_freed_under_a_reader_is_overwritten_unless_recorded(
    fakegpu: ModuleType, recorded: bool
) -> None:
    there, host, side = torch.full((4,), 5.0, device=D), torch.zeros(4).pin_memory(), torch.Stream(D)
    torch.accelerator.synchronize()
    with side:
        host.copy_(there, non_blocking=True)
    if recorded:
        there.record_stream(side)
    del there
    torch.zeros(4, device=D).add_(1)
    side.synchronize()
    assert host.tolist() == [5] * 4 if recorded else host.isnan().all() or host.tolist() == [1] * 4


def test_its_random_numbers_are_its_own(fakegpu: ModuleType) -> None:
    torch.manual_seed(3)
    cpu, state = torch.get_rng_state(), fakegpu.get_rng_state()
    first = nn.functional.dropout(torch.ones(64, device=D)).cpu()
    fakegpu.set_rng_state(state)
    assert torch.equal(first, nn.functional.dropout(torch.ones(64, device=D)).cpu())
    assert torch.equal(cpu, torch.get_rng_state())


def test_events_measure_time_on_their_stream(fakegpu: ModuleType) -> None:
    begin, end = torch.Event(D, enable_timing=True), torch.Event(D, enable_timing=True)
    begin.record()
    torch.ones(1000, device=D).sum()
    end.record()
    torch.accelerator.synchronize()
    assert begin.elapsed_time(end) > 0
    assert end.query()


def test_streams_belong_to_one_device(fakegpu: ModuleType) -> None:
    there = torch.arange(4.0, device="fakegpu:1")
    assert torch.equal(there.to("fakegpu:0").cpu(), torch.arange(4.0))
    side = torch.Stream(D)
    with side:
        assert current() == side
    assert current() != side


@on_eager
def test_what_it_is_to_find_is_found_in_this_process_only(fakegpu: ModuleType) -> None:
    assert os.environ["FAKEGPU_INSIDE"] == "1"
