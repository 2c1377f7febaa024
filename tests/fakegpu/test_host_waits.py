"""The pretend GPU counts what the host waits for: every way there is, in every thread, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from elastane.train.device import Device, Mark
from train.waits import counted

D = "fakegpu"
GPU = Device(D, 0)
pytestmark = pytest.mark.parametrize("fakegpu", ["late"], indirect=True)


def marked() -> Mark:
    """A moment that the host knows nothing of."""
    torch.ones(2, pin_memory=True).to(D, non_blocking=True)
    return GPU.mark()


def since(earlier: Mark) -> float:
    return marked().since(earlier)


def recorded() -> torch.Event:
    event = torch.Event(D)
    marked()
    event.record()
    return event


WAITS: dict[str, tuple[Callable[[Tensor], Any], dict[str, int]]] = {
    "a mark": (lambda _: marked().wait(), {"event": 1}),
    "an event": (lambda _: recorded().synchronize(), {"event": 1}),
    "a stream": (lambda _: (marked(), torch.accelerator.current_stream().synchronize()), {"stream": 1}),
    "the device": (lambda _: (marked(), torch.accelerator.synchronize()), {"device": 1}),
    "our device": (lambda _: (marked(), GPU.synchronize()), {"device": 1}),
    "times": (lambda _: since(marked()), {"event": 2}),
    "a number": (lambda x: float(x[0]), {"copy down": 1}),
    "numbers": (lambda x: x.tolist(), {"copy down": 1}),
    "a question": (lambda x: torch.equal(x, x + 1), {"aten::equal": 1}),
    "a size": (lambda x: x.nonzero(), {"aten::nonzero": 1}),
    "a mask": (lambda x: x[x > 0], {"aten::nonzero": 1}),
    "a copy down": (lambda x: x.cpu(), {"copy down": 1}),
    "a copy up": (lambda _: torch.ones(2).to(D), {"copy up": 1}),
    "one that only says that it does not block": (
        lambda _: torch.ones(2).to(D, non_blocking=True),
        {"copy up": 1},
    ),
}
NO_WAITS: dict[str, Callable[[Tensor], Any]] = {
    "kernels": lambda x: torch.nn.functional.conv1d((x @ x).expand(1, 1, 4) + 1, x[None, None, :2]).relu(),
    "a pinned copy": lambda _: marked(),
    "a question of an event": lambda _: marked().happened(),
    "an index": lambda x: x[torch.zeros(2, dtype=torch.long, pin_memory=True).to(D, non_blocking=True)],
    "a stream that waits": lambda _: marked().hold_back(torch.Stream(D)),
}


@pytest.mark.parametrize("kind", WAITS)
def test_a_wait_is_counted(fakegpu: ModuleType, kind: str) -> None:
    wait, found = WAITS[kind]
    x = torch.ones(4, device=D)
    with counted() as waits:
        wait(x)
    assert waits == found


@pytest.mark.parametrize("kind", NO_WAITS)
def test_what_does_not_wait_is_not_counted(fakegpu: ModuleType, kind: str) -> None:
    x = torch.ones(4, device=D)
    with counted() as waits:
        NO_WAITS[kind](x)
    assert not waits


def test_waits_of_other_threads_are_counted(fakegpu: ModuleType) -> None:
    waited, over = threading.Event(), threading.Event()

    def wait(moment: Mark) -> None:
        moment.wait()
        waited.set()
        over.wait()

    thread = threading.Thread(target=wait, args=(marked(),), name="another")
    with counted() as waits:
        thread.start()
        waited.wait()
    over.set()
    thread.join()
    assert waits == {"event in another": 1}


def test_what_the_host_was_told_is_not_waited_for_again(fakegpu: ModuleType) -> None:
    """Neither a moment before the one that was waited for, nor one of a stream for which that one had waited."""
    side = torch.Stream(D)
    with side:
        there = marked()
    here = marked()
    there.hold_back(GPU.current_stream())
    last = marked()
    with counted() as waits:
        last.wait()
        here.wait()
        there.wait()
        assert last.since(here) >= 0.0
    assert waits == {"event": 1}


def test_a_kernel_tells_the_host_nothing(fakegpu: ModuleType) -> None:
    """It runs in the caller here, and drains its stream; on a GPU the host would still have to wait."""
    moment = marked()
    torch.ones(2, device=D).add_(1)
    with counted() as waits:
        moment.wait()
    assert waits == {"event": 1}
