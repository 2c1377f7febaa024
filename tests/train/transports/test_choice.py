"""Which way gradients travel follows from what the members say of their devices, and a person is told why."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from elastane.train.errors import MembershipChanged
from elastane.train.transports import Choice, MemberDevice, NoTransport, TransportKind, choose_transport
from elastane.train.transports.alarm import Alarm
from elastane.train.transports.named_store import NamedStore
from elastane.train.transports.nccl import SETTINGS, lacking, prepare, process_group

A = MemberDevice("h1", "cuda", "GPU-a")
B = MemberDevice("h1", "cuda", "GPU-b")
CPU = MemberDevice("h1")
STAGED, NCCL = TransportKind.STAGED, TransportKind.NCCL_LIKE


def test_cpus_use_gloo() -> None:
    assert choose_transport([CPU, CPU], urgent=False, communicator=True) == Choice(TransportKind.GLOO_CPU)


def test_whole_and_different_devices_use_a_communicator_where_it_is_asked_for() -> None:
    assert choose_transport([A, B], urgent=False, communicator=True) == Choice(NCCL)
    assert choose_transport([A, replace(A, host="h2")], urgent=False, communicator=True) == Choice(NCCL)
    assert choose_transport([A, B], urgent=False, communicator=False) == Choice(STAGED)
    assert choose_transport([A], urgent=False, communicator=True) == Choice(STAGED)


def test_after_a_death_nobody_waits_for_a_communicator() -> None:
    assert choose_transport([A, B], urgent=True, communicator=True) == Choice(STAGED)


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (A, "2 workers use GPU-a on h1"),
        (replace(B, part=True), "GPU-b is a part of a GPU"),
        (replace(B, uuid=""), "nobody can tell"),
        (replace(B, kind="xpu"), "several kinds"),
        (CPU, "several kinds"),
        (replace(B, lacking="NCCL 2.21 cannot be aborted reliably (2.26 can)"), "NCCL 2.21"),
    ],
)
def test_where_it_cannot_be_had_the_reason_is_told(other: MemberDevice, told: str) -> None:
    choice = choose_transport([A, other], urgent=False, communicator=True)
    assert choice.kind is STAGED
    assert told in choice.note
    assert choice.note.endswith(": gradients travel through main memory")


def test_the_watchdog_of_pytorch_is_off_and_a_users_other_settings_stay() -> None:
    environment = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "3", "NCCL_RUNTIME_CONNECT": "1"}
    prepare(environment)
    assert environment == {**SETTINGS, "NCCL_RUNTIME_CONNECT": "1"}


def test_exchanges_of_blocks_have_few_channels_unless_the_user_wants_more() -> None:
    untouched: dict[str, str] = {}
    chosen = {"NCCL_MAX_P2P_NCHANNELS": "8"}
    prepare(untouched)
    prepare(chosen)
    assert (untouched["NCCL_MAX_P2P_NCHANNELS"], chosen["NCCL_MAX_P2P_NCHANNELS"]) == ("2", "8")


class Options:
    def __init__(self) -> None:
        self.config = SimpleNamespace(blocking=True)
        self._timeout = timedelta(minutes=10)


class Group:
    Options = Options

    def __init__(self, store: str, rank: int, world: int, options: Options) -> None:
        self.made = store, rank, world, options.config.blocking, options._timeout


def test_a_real_communicator_is_made_without_blocking_and_without_a_deadline_of_its_own() -> None:
    c10d: Any = SimpleNamespace(ProcessGroupNCCL=Group, ProcessGroupXCCL=Group)
    assert process_group("xpu", "store", 1, 2, c10d).made == ("store", 1, 2, False, timedelta(days=30))


def test_a_pytorch_without_communicators_says_so() -> None:
    assert lacking("cuda", SimpleNamespace()) == "this PyTorch has no communicator for cuda"
    with pytest.raises(NoTransport, match="no communicator for tpu"):
        process_group("tpu", None, 0, 1)


def test_an_alarm_rings_once_for_what_takes_too_long_and_not_for_what_has_ended() -> None:
    rang = threading.Semaphore(0)
    alarm = Alarm(rang.release)
    for _ in range(100):
        with alarm.within(60.0):
            pass
    with alarm.within(0.01):
        assert rang.acquire(timeout=10.0)
    assert not rang.acquire(blocking=False)
    alarm.close()


class Exchange:
    """Between threads of this process."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def put(self, name: str, data: bytes) -> None:
        with self._changed:
            assert name not in self._values
            self._values[name] = data
            self._changed.notify_all()

    def get(self, name: str, timeout_s: float) -> bytes:
        with self._changed:
            if not self._changed.wait_for(lambda: name in self._values, timeout_s):
                raise MembershipChanged(f"nobody has put {name}")
            return self._values[name]


def test_a_group_of_c10d_meets_by_names_alone() -> None:
    exchange, sums = Exchange(), [torch.full((3,), float(rank)) for rank in range(2)]

    def member(rank: int) -> None:
        store = NamedStore(exchange, 30.0)
        named = dist.PrefixStore("generation-4", store)
        group: Any = dist.ProcessGroupGloo(named, rank, 2, timedelta(seconds=30))
        group.allreduce([sums[rank]]).wait()

    threads = [threading.Thread(target=member, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.tolist() for each in sums] == [[1.0] * 3] * 2


def test_a_value_that_does_not_come_is_a_change_of_members() -> None:
    store = NamedStore(Exchange(), 0.01)
    store.set("mine", b"1")
    assert store.get("mine") == b"1"
    with pytest.raises(MembershipChanged):
        store.wait(["another's"])
