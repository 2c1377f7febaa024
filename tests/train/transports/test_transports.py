"""Every transport gives the same sums, and none of them a broken one: on the host, staged, with NCCL's manners."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from elastane.train.device import Device
from elastane.train.errors import MembershipChanged
from elastane.train.transports import GlooCpu, NcclLike, NoTransport, Patience, Staged, Transport
from elastane.train.transports.contract import Pending
from elastane.train.worker.group import Group
from fakegpu import ranks
from fakegpu.comm import Communicator, Faults
from fakegpu.ranks import Meeting

on_late = pytest.mark.parametrize("fakegpu", ["late"], indirect=True)
on_late_and_thread = pytest.mark.parametrize("fakegpu", ["late", "thread"], indirect=True)
GPU = Device("fakegpu", 0)
NO_FAULTS, PATIENCE = Faults(), Patience()
Make = Callable[[int, int, Meeting], Transport]


def group(rank: int, world: int, meeting: Meeting) -> Group:
    return Group(rank, world, meeting, host="127.0.0.1")


def gloo(rank: int, world: int, meeting: Meeting) -> Transport:
    return GlooCpu(group(rank, world, meeting))


def staged(rank: int, world: int, meeting: Meeting) -> Transport:
    return Staged(group(rank, world, meeting), GPU, bucket_bytes=4000)


def end_self(_reason: str) -> None:
    ranks.die()


def nccl_like(
    rank: int, world: int, meeting: Meeting, faults: Faults = NO_FAULTS, patience: Patience = PATIENCE
) -> NcclLike:
    backend = Communicator(meeting.store("nccl"), rank, world, faults)
    return NcclLike(backend, rank, world, GPU, end_self, patience)


def connected(rank: int, world: int, meeting: Meeting) -> NcclLike:
    transport = nccl_like(rank, world, meeting)
    transport.connect()
    transport.enter()
    return transport


def everything(make: Make, where: str) -> Callable[[int, Meeting], Any]:
    """Each collective once; what came out."""

    def body(rank: int, meeting: Meeting) -> Any:
        world = 3
        transport = make(rank, world, meeting)
        transport.enter()
        vector = torch.arange(3500.0, device=where) + rank
        pending = transport.reduce(vector)
        pending.order()
        doubled = vector * 2
        pending.finish()
        small = torch.full((5,), float(rank), device=where)
        transport.all_reduce(small)
        gathered = torch.zeros(6, device=where)
        transport.all_gather(gathered, torch.full((2,), float(rank), device=where))
        swapped = torch.zeros(3, device=where)
        parts = torch.arange(3.0, device=where) + 10 * rank
        transport.all_to_all(swapped, parts, [1, 1, 1], [1, 1, 1])
        transport.check()
        return [
            vector.cpu().tolist() == [3.0 * n + 3 for n in range(3500)],
            doubled.cpu().tolist() == [6.0 * n + 6 for n in range(3500)],
            small.cpu().tolist(),
            gathered.cpu().tolist(),
            swapped.cpu().tolist(),
        ]

    return body


def expected(rank: int) -> list[Any]:
    return [True, True, [3.0] * 5, [0, 0, 1, 1, 2, 2], [rank, 10.0 + rank, 20.0 + rank]]


@on_late
def test_gloo_sums_on_the_host(fakegpu: ModuleType) -> None:
    assert ranks.run(3, everything(gloo, "cpu")) == [expected(rank) for rank in range(3)]


@pytest.mark.parametrize("make", [staged, connected])
def test_sums_of_devices_are_right(fakegpu: ModuleType, make: Make) -> None:
    assert ranks.run(3, everything(make, "fakegpu")) == [expected(rank) for rank in range(3)]


def dead_peer(make: Make, where: str) -> Callable[[int, Meeting], Any]:
    """Rank 2 dies between two collectives; the others are aborted while they wait for it."""

    def body(rank: int, meeting: Meeting) -> Any:
        transport = make(rank, 3, meeting)
        transport.enter()
        vector = torch.ones(3000, device=where)
        transport.all_reduce(vector)
        meeting.reached("summed", rank)
        meeting.wait_for("summed", [0, 1, 2])
        if rank == 2:
            ranks.die()
        pending = transport.reduce(vector)
        threading.Timer(0.3, transport.abort).start()
        broken = ""
        try:
            pending.finish()
        except MembershipChanged:
            broken = "broken"
        torch.accelerator.synchronize()  # the device is not stuck
        refused = ""
        try:
            transport.all_reduce(vector)
        except MembershipChanged:
            refused = "refused"
        return [broken, refused]

    return body


@on_late_and_thread
def test_an_exchange_comes_after_the_copies_of_the_one_before(fakegpu: ModuleType) -> None:
    """They share pinned memory, and the host does not wait for what it has had copied up."""

    def body(rank: int, meeting: Meeting) -> Any:
        transport = staged(rank, 2, meeting)
        outputs = [torch.zeros(2 * size, device=GPU.as_torch()) for size in (3, 5, 2)]
        for value, output in enumerate(outputs):
            mine = torch.full((len(output) // 2,), float(10 * value + rank), device=GPU.as_torch())
            transport.gather(output, mine).order()
        return [output.tolist() for output in outputs]

    right = [[10.0 * value] * size + [10.0 * value + 1] * size for value, size in enumerate((3, 5, 2))]
    assert ranks.run(2, body) == [right, right]


@on_late
def test_a_dead_peer_breaks_the_sum_on_the_host(fakegpu: ModuleType) -> None:
    assert ranks.run(3, dead_peer(gloo, "cpu")) == [["broken", "refused"]] * 2 + [None]


@pytest.mark.parametrize("make", [staged, connected])
def test_a_dead_peer_breaks_the_sum_of_devices(fakegpu: ModuleType, make: Make) -> None:
    assert ranks.run(3, dead_peer(make, "fakegpu")) == [["broken", "refused"]] * 2 + [None]


@on_late_and_thread
def test_an_aborted_sum_is_garbage_that_looks_whole_to_the_stream(fakegpu: ModuleType) -> None:
    """Who only orders and never finishes takes a garbage step: the rule behind ``finish`` is not idle."""

    def body(rank: int, meeting: Meeting) -> Any:
        transport = connected(rank, 2, meeting)
        if rank == 1:
            meeting.wait_for("seen", [0])
            return None
        parameter, gradient = torch.ones(8, device="fakegpu"), torch.ones(8, device="fakegpu")
        pending = transport.reduce(gradient)
        pending.order()
        transport.abort()
        assert transport.wait_aborted(10.0)
        parameter.sub_(gradient)
        stepped = parameter.cpu()
        try:
            pending.finish()
        except MembershipChanged:
            meeting.reached("seen", 0)
            return [bool((stepped == 0).all() or (stepped == -1).all()), "told"]
        return "not told"

    assert ranks.run(2, body)[0] == [False, "told"]


@on_late
def test_a_deadline_of_ours_ends_a_collective_that_nobody_ends(fakegpu: ModuleType) -> None:
    def body(rank: int, meeting: Meeting) -> Any:
        transport = nccl_like(rank, 2, meeting, patience=Patience(collective_s=0.3))
        transport.connect()
        transport.enter()
        if rank == 1:
            meeting.wait_for("ended", [0])
            return None
        try:
            transport.all_reduce(torch.ones(3, device="fakegpu"))
        except MembershipChanged:
            meeting.reached("ended", 0)
            return "ended"

    assert ranks.run(2, body)[0] == "ended"


def abort_while_waiting(transport: NcclLike) -> None:
    """Abort as soon as the host waits for a collective."""
    while transport._nobody_waits.is_set():
        time.sleep(0.001)
    transport.abort()


def abort_in_a_thread_while_finishing(transport: NcclLike, pending: Pending) -> None:
    threading.Thread(target=abort_while_waiting, args=(transport,)).start()
    pending.finish()


def abort_and_finish(transport: NcclLike, pending: Pending) -> None:
    transport.abort()
    pending.finish()


def abort_and_wait(transport: NcclLike, pending: Pending) -> None:
    pending.order()
    transport.abort()
    transport.wait_aborted(30.0)


NEVER_RETURNS = (Faults(abort_never_returns=True), "a broken collective could not be ended within 0.3 s")
DOES_NOTHING = (
    Faults(abort_does_nothing=True),
    "a broken collective was ended, but the device did not go on within 0.3 s",
)


@on_late_and_thread
@pytest.mark.parametrize(
    ("fault", "then"),
    [
        (NEVER_RETURNS, abort_in_a_thread_while_finishing),
        (NEVER_RETURNS, abort_and_finish),
        (DOES_NOTHING, abort_in_a_thread_while_finishing),
        (DOES_NOTHING, abort_and_finish),
        (DOES_NOTHING, abort_and_wait),
    ],
)
def test_a_worker_whose_device_stays_stuck_gives_itself_up(
    fakegpu: ModuleType,
    tmp_path: Path,
    fault: tuple[Faults, str],
    then: Callable[[NcclLike, Pending], None],
) -> None:
    """The other one sees it happen: a process that hangs for ever would be gone in the end as well."""
    faults, told = fault

    def body(rank: int, meeting: Meeting) -> Any:
        def give_up(why: str) -> None:
            (tmp_path / "why").write_text(why)
            meeting.reached("gave up", rank)
            ranks.die()

        backend = Communicator(meeting.store("nccl"), rank, 2, faults if rank == 0 else NO_FAULTS)
        patience = Patience(abort_s=60.0 if faults.abort_does_nothing else 0.3, rest_s=0.3)
        transport = NcclLike(backend, rank, 2, GPU, give_up, patience)
        transport.connect()
        transport.enter()
        if rank == 1:
            meeting.wait_for("gave up", [0])
            return "saw it"
        then(transport, transport.reduce(torch.ones(3, device="fakegpu")))
        return "came back"

    assert ranks.run(2, body) == [None, "saw it"]
    assert (tmp_path / "why").read_text() == told


@on_late
def test_two_workers_on_one_device_get_no_communicator(fakegpu: ModuleType) -> None:
    def body(rank: int, meeting: Meeting) -> Any:
        try:
            nccl_like(rank, 2, meeting).connect()
        except NoTransport as reason:
            return str(reason)

    assert all("Duplicate GPU" in told for told in ranks.run(2, body, devices=[1, 1]))


@on_late
def test_a_device_without_memory_gets_no_communicator_and_can_be_used_on(fakegpu: ModuleType) -> None:
    def body(rank: int, meeting: Meeting) -> Any:
        transport = nccl_like(rank, 1, meeting, Faults(out_of_memory=True))
        try:
            transport.connect()
        except NoTransport as reason:
            return [str(reason), torch.ones(2, device="fakegpu").sum().item()]

    assert ranks.run(1, body) == [["not enough memory on the device for a communicator", 2.0]]


@on_late
def test_a_communicator_is_not_called_connected_before_everybody_is(fakegpu: ModuleType) -> None:
    """Its making returns at once on rank 0, long before rank 1 has begun."""

    def body(rank: int, meeting: Meeting) -> Any:
        transport = nccl_like(rank, 2, meeting)
        if rank == 1:
            meeting.wait_for("looked", [0])
            transport.connect()
            return "connected"
        connecting = threading.Thread(target=transport.connect)
        connecting.start()
        connecting.join(0.5)
        early = not connecting.is_alive()
        meeting.reached("looked", 0)
        connecting.join()
        transport.enter()
        return early

    assert ranks.run(2, body) == [False, "connected"]


@on_late
@pytest.mark.parametrize("fault", ["breaks_in_connect", "never_first", "hangs_in_connect"])
def test_a_communicator_that_fails_behind_its_making_is_none_and_the_device_can_be_used_on(
    fakegpu: ModuleType, fault: str
) -> None:
    def body(rank: int, meeting: Meeting) -> Any:
        other = staged(rank, 1, meeting)
        faults = Faults(**{fault: True})
        transport = nccl_like(
            rank, 1, meeting, faults, Patience(connect_s=0.3 if fault != "breaks_in_connect" else 60)
        )
        try:
            transport.connect()
        except NoTransport as reason:
            vector = torch.ones(2, device="fakegpu")
            other.all_reduce(vector)
            return [str(reason), vector.sum().item()]

    late = "a communicator was not connected within 0.3 s"
    told = {"breaks_in_connect": "NCCL-like: unhandled system error"}.get(fault, late)
    assert ranks.run(1, body) == [[told, 2.0]]


@on_late
def test_a_plan_that_is_superseded_ends_the_connecting(fakegpu: ModuleType) -> None:
    def body(rank: int, meeting: Meeting) -> Any:
        backend = Communicator(meeting.store("nccl"), rank, 2, Faults(hangs_in_connect=True))
        transport = NcclLike(backend, rank, 2, GPU, end_self)
        ended: list[str] = []

        def connect() -> None:
            try:
                transport.connect()
            except MembershipChanged:
                ended.append("superseded")

        thread = threading.Thread(target=connect)
        thread.start()
        backend.connecting.wait()
        transport.abort()
        thread.join(10.0)
        return ended

    assert ranks.run(1, body) == [["superseded"]]


@on_late
def test_a_standby_is_not_used_before_the_boundary(fakegpu: ModuleType) -> None:
    def body(rank: int, meeting: Meeting) -> Any:
        old, new = staged(rank, 2, meeting), nccl_like(rank, 2, meeting)
        building = threading.Thread(target=new.connect)
        building.start()
        vector = torch.ones(2000, device="fakegpu")
        for _ in range(5):  # the old one trains on meanwhile
            old.all_reduce(vector)
        refused = 0
        for early in (new.reduce, lambda _: new.enter() if building.is_alive() else new.reduce(vector)):
            try:
                early(vector)
            except RuntimeError:
                refused += 1
        building.join()
        new.enter()
        new.all_reduce(vector)
        return [vector[0].item(), refused]

    assert ranks.run(2, body) == [[64.0, 2]] * 2


@on_late
@pytest.mark.parametrize("forgotten", [False, True])
def test_a_vector_that_is_freed_while_it_travels_is_not_lent_again(
    fakegpu: ModuleType, forgotten: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another allocation would write into what the copy stream has not read yet."""

    def body(rank: int, meeting: Meeting) -> Any:
        transport = staged(rank, 2, meeting)
        assert isinstance(transport, Staged)
        if forgotten:
            monkeypatch.setattr(torch.Tensor, "record_stream", lambda _tensor, _stream: None)
        vector = torch.ones(3000, device="fakegpu")
        torch.accelerator.synchronize()
        ready = transport._borrow(vector)
        here = transport._device.pinned(3000, torch.float32)
        ready.hold_back(transport._copies)
        transport._down(here, vector)
        del vector
        other = torch.full((3000,), 7.0, device="fakegpu")
        torch.accelerator.current_stream().synchronize()
        transport._copies.synchronize()
        assert other[0].item() == 7.0
        meeting.reached("over", rank)
        meeting.wait_for("over", [0, 1])
        return here.tolist() == [1.0] * 3000

    assert ranks.run(2, body) == [not forgotten] * 2


@on_late
@pytest.mark.parametrize("forgotten", [False, True])
def test_after_a_broken_sum_nobody_writes_before_its_copies_have_ended(
    fakegpu: ModuleType, forgotten: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def result(self) -> Any:
            raise MembershipChanged("a peer is gone")

    def body(rank: int, meeting: Meeting) -> Any:
        transport = staged(rank, 2, meeting)
        assert isinstance(transport, Staged)
        vector, there = torch.zeros(3000, device="fakegpu"), torch.full((3000,), 2.0).pin_memory()
        torch.accelerator.synchronize()
        here = torch.ones(3000).pin_memory()
        transport._up(vector, here)  # a sum that breaks has a bucket on its way back
        if forgotten:
            monkeypatch.setattr(Device, "current_stream", lambda _device: None)
        with pytest.raises(MembershipChanged):
            transport.settle(Broken())  # type: ignore[arg-type]
        vector.copy_(there, non_blocking=True)
        torch.accelerator.current_stream().synchronize()
        transport._copies.synchronize()
        meeting.reached("over", rank)
        meeting.wait_for("over", [0, 1])
        return vector.cpu().tolist() == [2.0] * 3000

    assert ranks.run(2, body) == [not forgotten] * 2


@on_late
@pytest.mark.parametrize("forgotten", [False, True])
def test_a_communicator_is_entered_only_when_the_device_is_idle(
    fakegpu: ModuleType, forgotten: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the communicator before was given must have ended: two of them on one device can wait for each other."""

    def body(rank: int, meeting: Meeting) -> Any:
        new = nccl_like(rank, 2, meeting)
        new.connect()
        host = torch.full((2000,), 3.0).pin_memory()
        vector, aside = torch.zeros(2000, device="fakegpu"), GPU.new_stream()
        torch.accelerator.synchronize()
        with aside:
            vector.copy_(host, non_blocking=True)
        moment = GPU.mark(aside)
        if forgotten:
            monkeypatch.setattr(type(new._device), "synchronize", lambda _device: None)
        new.enter()
        idle = moment.happened()
        meeting.reached("over", rank)
        meeting.wait_for("over", [0, 1])
        return idle

    assert ranks.run(2, body) == [not forgotten] * 2


@on_late
@pytest.mark.parametrize("forgotten", ["", "ready", "done", "buffer"])
def test_a_staged_sum_without_one_of_its_waits_is_found_out(
    fakegpu: ModuleType, forgotten: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rule of streams is needed: take one away and the sum is wrong."""
    from elastane.train.transports import staged as module

    def body(rank: int, meeting: Meeting) -> Any:
        transport = staged(rank, 2, meeting)
        assert isinstance(transport, Staged)
        real_hold, real_wait = module.Mark.hold_back, module.Mark.wait
        main = GPU.current_stream()

        def hold_back(mark: Any, stream: Any) -> None:
            if not {"ready": stream != main, "done": stream == main}.get(forgotten, False):
                real_hold(mark, stream)

        if forgotten in ("ready", "done"):
            monkeypatch.setattr(module.Mark, "hold_back", hold_back)
        if forgotten == "buffer":
            monkeypatch.setattr(module.Mark, "wait", lambda _mark: None)
        host = torch.arange(3000.0).pin_memory()
        vector = torch.zeros(3000, device="fakegpu")
        torch.accelerator.synchronize()
        vector.copy_(host, non_blocking=True)  # still under way when the sum begins
        pending = transport.reduce(vector)
        pending.finish()
        result = vector.clone().cpu()
        monkeypatch.setattr(module.Mark, "wait", real_wait)
        return torch.equal(result, torch.arange(3000.0) * 2)

    assert ranks.run(2, body) == [not forgotten] * 2


@on_late
def test_a_sum_keeps_its_vector_alive(fakegpu: ModuleType) -> None:
    def body(rank: int, meeting: Meeting) -> Any:
        transport = connected(rank, 2, meeting)
        for _ in range(10):
            vector = torch.ones(1000, device="fakegpu")
            pending = transport.reduce(vector)
            view = vector[:1]
            del vector
            torch.zeros(1000, device="fakegpu").add_(1)
            pending.finish()
            assert view.item() == 2.0
        return True

    assert ranks.run(2, body) == [True, True]


@on_late
def test_the_host_does_not_wait_to_begin_a_sum(fakegpu: ModuleType) -> None:
    def body(rank: int, meeting: Meeting) -> Any:
        transport = connected(rank, 2, meeting)
        vector = torch.ones(10, device="fakegpu")
        if rank == 1:
            meeting.wait_for("begun", [0])
        pending = transport.reduce(vector)  # rank 0 is alone with it until it has said so
        pending.order()
        meeting.reached("begun", rank)
        pending.finish()
        return vector[0].item()

    began_s = time.monotonic()
    assert ranks.run(2, body) == [2.0, 2.0]
    assert time.monotonic() - began_s < 30.0
    assert os.environ["FAKEGPU_INSIDE"] == "1"


@on_late
@pytest.mark.parametrize("forgotten", ["", "check", "order"])
def test_a_communicator_without_one_of_its_waits_is_found_out(
    fakegpu: ModuleType, forgotten: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the check an aborted sum passes for a whole one; without the stream's wait it is read too early."""

    def body(rank: int, meeting: Meeting) -> Any:
        transport = connected(rank, 2, meeting)
        vector = torch.ones(4, device="fakegpu")
        whole = torch.ones(4, device="fakegpu")
        if forgotten == "order":
            monkeypatch.setattr("fakegpu.comm._Work.wait", lambda _work: True)
            if rank == 1:
                meeting.wait_for("read", [0])
        transport.all_reduce(whole)
        summed = whole.tolist() == [2.0] * 4
        meeting.reached("read", rank)
        if rank == 1:
            meeting.wait_for("over", [0])
            return None
        pending = transport.reduce(vector)
        if forgotten == "check":
            monkeypatch.setattr(transport, "check", lambda: None)
        transport.abort()
        try:
            pending.finish()
            passed = True
        except MembershipChanged:
            passed = False
        meeting.reached("over", 0)
        return [summed, passed]

    expected_of = {"": [True, False], "check": [True, True], "order": [False, False]}
    assert ranks.run(2, body)[0] == expected_of[forgotten]


@on_late
def test_a_failed_device_is_a_lost_worker(fakegpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the device itself, other than memory, cannot be mended in this process."""

    def body(rank: int, meeting: Meeting) -> Any:
        told: list[str] = []
        backend = Communicator(meeting.store("nccl"), rank, 1)
        transport = NcclLike(backend, rank, 1, GPU, told.append)
        transport.connect()
        transport.enter()

        def fails(*_: Any) -> None:
            raise torch.AcceleratorError("an illegal memory access was encountered")

        backend.allreduce = fails  # type: ignore[method-assign]
        try:
            transport.reduce(torch.ones(1, device="fakegpu"))
        except torch.AcceleratorError:
            return told

    assert ranks.run(1, body) == [["the device has failed: an illegal memory access was encountered"]]
