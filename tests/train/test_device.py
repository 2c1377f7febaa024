"""A device is asked for, ordered, seeded and measured the same way whatever its kind; a CPU costs nothing."""

from __future__ import annotations

import collections
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from elastane.train.batch_mover import BatchMover, moved_to
from elastane.train.device import DEVICE, Device, Mark, about_index, choose
from elastane.train.device_checks import check_batch, check_model, device_of
from elastane.train.errors import TrainError
from elastane.train.worker.host_tail import HostTail
from elastane.train.worker.step_times import StepTimes
from train.waits import counted

on_late = pytest.mark.parametrize("fakegpu", ["late"], indirect=True)
on_eager = pytest.mark.parametrize("fakegpu", ["eager"], indirect=True)
Pair = collections.namedtuple("Pair", ["x", "y"])


@dataclass(frozen=True)
class Sample:
    x: Tensor
    name: str


def test_without_an_accelerator_it_is_the_cpu() -> None:
    cpu = choose(environment={})
    assert cpu == Device() == choose("cpu", {DEVICE: "cuda"}) == choose(None, {DEVICE: "cpu"})
    assert (cpu.as_torch(), str(cpu), cpu.memory(), cpu.new_stream(), cpu.current_stream()) == (
        torch.device("cpu"),
        "cpu",
        None,
        None,
        None,
    )
    assert cpu.signature() == {"device": "cpu"}
    assert not cpu.pinned(3, torch.float32).is_pinned()


@pytest.mark.parametrize(
    ("asked", "told"),
    [("cuda", "has no accelerator"), ("graphics", "no such device"), ("cuda:x", "no such device")],
)
def test_what_is_not_there_is_refused_in_one_line(asked: str, told: str) -> None:
    with pytest.raises(TrainError, match=told):
        choose(asked, {})


def test_a_mark_on_a_cpu_is_the_clock() -> None:
    first, second = Device().mark(), Device().mark()
    assert second.since(first) >= 0.0
    assert second.happened()


def test_random_numbers_of_a_cpu_are_those_of_torch() -> None:
    cpu, kept = Device(), torch.get_rng_state()
    cpu.seed(7)
    state, first = cpu.rng_state(), torch.rand(3)
    cpu.set_rng_state(state)
    assert torch.equal(first, torch.rand(3))
    torch.set_rng_state(kept)


def test_importing_it_asks_for_no_device() -> None:
    code = (
        "import torch\nfor name in ('current_accelerator', 'is_available', 'device_count'):\n"
        "    setattr(torch.accelerator, name, None)\n"
        "import elastane.train.device, elastane.train.batch_mover, elastane.train.transports"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_on_a_cpu_batches_are_handed_on_as_they_are_and_none_is_taken_ahead() -> None:
    taken = []

    def batches() -> Iterator[Tensor]:
        for number in range(3):
            taken.append(number)
            yield torch.full((2,), float(number))

    moved = BatchMover(Device()).moved(batches())
    next(moved)
    assert taken == [0]


TF32 = """
import torch
from elastane.train.device import against_tf32
b = torch.backends
def off(settings):
    exec(settings)
    print([line.removeprefix("torch.backends.") for line in against_tf32()])
    for line in against_tf32():
        exec(line)
    assert against_tf32() == ()
off("b.cuda.matmul.allow_tf32 = True; b.cudnn.allow_tf32 = False")
off("b.cuda.matmul.allow_tf32 = b.cudnn.allow_tf32 = True")
off("b.cuda.matmul.fp32_precision = 'tf32'")
off("b.cudnn.conv.fp32_precision = 'tf32'")
off("b.cudnn.allow_tf32 = False")
torch.set_float32_matmul_precision("high")
off("")
"""


def test_tf32_is_found_by_whichever_interface_it_was_switched_on() -> None:
    """Of the older one alone PyTorch refuses to tell once the newer one was used."""
    done = subprocess.run([sys.executable, "-c", TF32], capture_output=True, text=True, check=True)
    matmul, conv, rnn = (
        f"{part}.fp32_precision = 'ieee'" for part in ("cuda.matmul", "cudnn.conv", "cudnn.rnn")
    )
    found = [[matmul], [matmul, conv, rnn], [matmul], [conv], [], [matmul]]
    assert done.stdout.splitlines() == [str(lines) for lines in found]


@on_eager
def test_an_index_that_a_device_refuses_is_explained(fakegpu: ModuleType) -> None:
    for error in (RuntimeError("CUDA error: invalid device ordinal\nmore"), refused_index()):
        assert about_index(error, {}).endswith(
            "is not there: this worker has been given 2 devices, counted from fakegpu:0; "
            "use job.device instead of an index"
        )
    assert about_index(RuntimeError("another problem"), {}) == ""
    assert about_index(RuntimeError("CUDA error: invalid device ordinal"), {DEVICE: "cpu"}) == ""


def refused_index() -> RuntimeError:
    try:
        torch.ones(1).to("fakegpu:3")
    except RuntimeError as error:
        return error
    raise AssertionError("it was taken")


@on_eager
def test_an_accelerator_is_chosen_where_there_is_one(fakegpu: ModuleType) -> None:
    assert choose(environment={}) == Device("fakegpu", 0)
    assert choose("fakegpu:1", {}) == Device("fakegpu", 1)
    assert choose(torch.device("fakegpu"), {DEVICE: "cpu"}) == Device("fakegpu", 0)
    assert choose(environment={DEVICE: "cpu"}) == Device()
    assert not fakegpu.is_initialized()
    with pytest.raises(TrainError, match="fakegpu:3 is not there: this worker has been given 2 devices"):
        choose("fakegpu:3", {})
    with pytest.raises(TrainError, match="a device of kind fakegpu"):
        choose("cuda", {})


def test_marks_hold_streams_back(fakegpu: ModuleType) -> None:
    device = Device("fakegpu", 0)
    there, side = torch.ones(4, device="fakegpu"), device.new_stream()
    host = device.pinned(4, torch.float32)
    assert host.is_pinned()
    device.mark().hold_back(side)
    assert side is not None
    with side:
        host.copy_(there, non_blocking=True)
    copied = device.mark(side)
    copied.hold_back(device.current_stream())
    there.add_(1)
    copied.wait()
    assert host.tolist() == [1] * 4
    later = device.mark()
    assert later.since(copied) >= 0.0
    assert later.happened()


@on_eager
def test_each_device_has_random_numbers_and_memory_of_its_own(fakegpu: ModuleType) -> None:
    first, second = Device("fakegpu", 0), Device("fakegpu", 1)
    cpu, other = torch.get_rng_state(), second.rng_state()
    first.seed(5)
    state, drawn = first.rng_state(), torch.rand(4, device=first.as_torch()).cpu()
    assert torch.equal(cpu, torch.get_rng_state())
    assert torch.equal(other, second.rng_state())
    first.set_rng_state(state)
    assert torch.equal(drawn, torch.rand(4, device=first.as_torch()).cpu())
    second.seed(5)
    assert torch.equal(drawn, torch.rand(4, device=second.as_torch()).cpu())
    assert torch.accelerator.current_device_index() == 0
    held = torch.empty(1 << 20, dtype=torch.uint8, device=second.as_torch())
    free, total = second.memory() or (0, 0)
    assert free <= total - held.numel() < total == (first.memory() or (0, 0))[1]
    first.release()
    assert first.signature() == {"device": "fakegpu", "device_name": "Pretend GPU", "tf32": False}


@on_eager
def test_a_model_that_is_not_on_the_workers_device_is_refused_in_one_line(fakegpu: ModuleType) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    check_model(net.parameters(), Device())
    with pytest.raises(TrainError, match="the model is on cpu, but this worker trains on fakegpu:0"):
        check_model(net.parameters(), Device("fakegpu", 0))
    net[1].to("fakegpu")
    with pytest.raises(
        TrainError, match=r"parameters are on fakegpu:0 and cpu: put the whole model on job\.device"
    ):
        check_model(net.parameters(), Device("fakegpu", 0))
    net.to("fakegpu:1")
    assert device_of(net.parameters()) == Device("fakegpu", 1)
    with pytest.raises(TrainError, match="the model is on fakegpu:1"):
        check_model(net.parameters(), Device("fakegpu", 0))


@on_eager
def test_a_batch_of_the_cpu_does_not_go_into_a_model_of_a_device(fakegpu: ModuleType) -> None:
    device = Device("fakegpu", 0)
    good = {"x": torch.ones(2, device="fakegpu"), "scale": torch.tensor(1.0), "name": "a"}
    check_batch(good, device)
    with pytest.raises(TrainError, match=r"its batch is on cpu: write batch\.to\(job\.device\)"):
        check_batch([good, Sample(torch.ones(2), "b")], device)


def test_batches_arrive_whole_and_in_order(fakegpu: ModuleType) -> None:
    mover = BatchMover(Device("fakegpu", 0))
    total = 0.0
    for x, name in mover.moved((torch.full((1000,), float(n)), str(n)) for n in range(8)):
        assert x.device.type == "fakegpu"
        assert x.cpu().tolist() == [float(name)] * 1000
        total += float(x.sum())
        del x
    assert total == 28_000.0


def test_a_batch_is_read_by_the_script_after_its_copy_and_freed_after_the_script(fakegpu: ModuleType) -> None:
    device = Device("fakegpu", 0)
    read = device.pinned(4, torch.float32)
    for x in BatchMover(device).moved([torch.full((4,), 1.0), torch.full((4,), 2.0)]):
        read.copy_(x, non_blocking=True)
        del x  # the script is done with it; its copy is not
        device.synchronize()
        assert read[0] in (1.0, 2.0)


@on_late
@pytest.mark.parametrize("forgotten", ["wait", "record"])
def test_a_mover_that_forgets_a_rule_is_found_out(fakegpu: ModuleType, forgotten: str) -> None:
    """The two tests above could not fail otherwise."""
    device = Device("fakegpu", 0)
    stream, read = device.new_stream(), device.pinned(4, torch.float32)
    assert stream is not None
    device.synchronize()
    with stream:
        x = torch.full((4,), 1.0).pin_memory().to("fakegpu", non_blocking=True)
    if forgotten == "record":
        device.mark(stream).hold_back(device.current_stream())
    read.copy_(x, non_blocking=True)
    del x
    if forgotten == "record":  # the copy stream lends the memory again, before the script's stream has read it
        stream.synchronize()
    device.current_stream().synchronize()
    assert read.tolist() != [1.0] * 4


@on_late
@pytest.mark.parametrize("forgotten", ["", "wait", "record"])
def test_the_mover_itself_needs_each_of_its_rules(
    fakegpu: ModuleType, forgotten: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device("fakegpu", 0)
    mover, read = BatchMover(device), device.pinned(4, torch.float32)
    device.synchronize()
    if forgotten == "wait":
        monkeypatch.setattr(Mark, "hold_back", lambda _mark, _stream: None)
    if forgotten == "record":
        monkeypatch.setattr(torch.Tensor, "record_stream", lambda _tensor, _stream: None)
    batch = mover.start(torch.full((4,), 1.0)).arrived()
    read.copy_(batch, non_blocking=True)
    del batch  # the script is done with it
    stream = mover._stream
    assert stream is not None
    if forgotten != "wait":
        stream.synchronize()  # it lends its memory again
    torch.accelerator.current_stream().synchronize()
    assert (read.tolist() == [1.0] * 4) == (not forgotten)


@on_late
@pytest.mark.parametrize("forgotten", [False, True])
def test_a_row_under_way_is_not_written_over(fakegpu: ModuleType, forgotten: bool) -> None:
    """A reduction that failed has not waited for its row: the next one must not use the pinned memory too early."""
    device = Device("fakegpu", 0)
    host = HostTail(device)
    first, second = (torch.zeros(4, device="fakegpu") for _ in range(2))
    device.synchronize()
    for tail, value in ((first, 1.0), (second, 2.0)):
        if forgotten:
            host._sent = None
        host.opened(tail, 4).fill_(value)
        host.send(tail, 4)
    device.synchronize()
    assert second.tolist() == [2.0] * 4
    assert (first.tolist() == [1.0] * 4) == (not forgotten)


@on_late
def test_times_of_a_step_are_told_a_step_late_and_without_a_wait(fakegpu: ModuleType) -> None:
    device = Device("fakegpu", 0)
    times, x = StepTimes(device), torch.ones(4, device="fakegpu")
    told = []
    for _ in range(3):
        times.begin()
        for _ in range(2):
            times.unit_begins()
            x.mul_(1.0)
            times.unit_ends()
        times.reduction_begins()
        with counted() as waits:
            told.append(list(times.said()))
        assert not waits
        moment = device.mark()
        moment.wait()
        passes, reduction_s = times.commit(moment)
        assert len(passes) == 2
        assert min(*passes, reduction_s) >= 0.0
        kept = passes
    assert [len(each) for each in told] == [0, 2, 2]
    assert times.said() == kept


def test_times_on_a_cpu_are_those_of_this_step() -> None:
    times = StepTimes(Device())
    times.begin()
    times.unit_begins()
    time.sleep(0.02)
    times.unit_ends()
    (spent_s,) = times.said()
    assert spent_s >= 0.02
    times.reduction_begins()
    time.sleep(0.02)
    passes, reduction_s = times.commit(None)
    assert passes == [spent_s]
    assert reduction_s >= 0.02


@on_eager
def test_every_structure_of_a_batch_is_kept(fakegpu: ModuleType) -> None:
    one = torch.ones(1)
    batch = {"pair": Pair(one, [one, "text", 3]), "sample": Sample(one, "n"), "tuple": (one, None)}
    moved = moved_to(batch, Device("fakegpu", 0))
    assert type(moved["pair"]) is Pair
    assert (moved["pair"].y[1:], moved["sample"].name, moved["tuple"][1]) == (["text", 3], "n", None)
    check_batch(moved, Device("fakegpu", 0))
    with pytest.raises(TrainError):
        check_batch(batch, Device("fakegpu", 0))
