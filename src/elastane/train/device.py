"""A ``Device`` is where a worker trains: the CPU or one accelerator; the only module that knows kinds of devices.

Everything goes through ``torch.accelerator``, ``torch.Stream``, ``torch.Event`` and the device's own module, so
CUDA, ROCm, XPU and the pretend GPU of the tests share every line.  On a CPU nothing costs anything: streams are
nothing, marks are the clock, pinned memory is memory.

A device must be asked for in a worker only: asking initialises it, and a process that has done so cannot be
forked.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from elastane.train.errors import TrainError

DEVICE = "ELASTANE_DEVICE"
"""What to train on where the script does not say: ``cpu``, ``cuda``, ``cuda:0``, …"""
CPU = "cpu"
_NO_INDEX = ("invalid device ordinal", "device index is out of range")
"""How CUDA (and ROCm), and XPU, refuse an index."""


class Mark:
    """A ``Mark`` is a moment in the order of a device's work; on a CPU it is the time at which it was made."""

    def __init__(self, kind: str, stream: torch.Stream | None) -> None:
        self._at_s = time.perf_counter()
        self._event = torch.Event(kind, enable_timing=True) if stream is not None else None
        if self._event is not None:
            self._event.record(stream)

    def happened(self) -> bool:
        """Whether the work before it is done."""
        return self._event is None or bool(self._event.query())

    def wait(self) -> None:
        """Until the work before it is done; the host stands still."""
        if self._event is not None:
            self._event.synchronize()

    def hold_back(self, stream: torch.Stream | None) -> None:
        """Let a stream go on only after it; the host does not wait."""
        if self._event is not None and stream is not None:
            stream.wait_event(self._event)

    def since(self, earlier: Mark) -> float:
        """Seconds from another mark to this one; waits for both."""
        if self._event is None or earlier._event is None:
            return self._at_s - earlier._at_s
        earlier._event.synchronize()
        self._event.synchronize()
        return float(earlier._event.elapsed_time(self._event)) / 1e3


@dataclass(frozen=True, slots=True)
class Device:
    """A kind (``cpu``, ``cuda``, ``xpu``, …) and, of an accelerator, its index among those this process may see."""

    kind: str = CPU
    index: int = 0

    @property
    def is_cpu(self) -> bool:
        """Whether there is no accelerator."""
        return self.kind == CPU

    def __str__(self) -> str:
        return self.kind if self.is_cpu else f"{self.kind}:{self.index}"

    def as_torch(self) -> torch.device:
        """What PyTorch calls it."""
        return torch.device(CPU) if self.is_cpu else torch.device(self.kind, self.index)

    def use(self) -> None:
        """Make it the current device of the calling thread."""
        if not self.is_cpu:
            torch.accelerator.set_device_index(self.index)

    # Order of work.

    def new_stream(self) -> torch.Stream | None:
        """A stream of its own for copies or snapshots; None on a CPU."""
        return None if self.is_cpu else torch.Stream(self.as_torch())

    def current_stream(self) -> torch.Stream | None:
        """The stream on which the calling thread's work goes; None on a CPU."""
        return None if self.is_cpu else torch.accelerator.current_stream(self.index)

    def mark(self, stream: torch.Stream | None = None) -> Mark:
        """A mark behind what a stream (or else the current one) has been given so far."""
        return Mark(self.kind, stream if stream is not None else self.current_stream())

    def synchronize(self) -> None:
        """Until the device has done everything; the host stands still."""
        if not self.is_cpu:
            torch.accelerator.synchronize(self.index)

    # Memory.

    def pinned(self, size: int, dtype: torch.dtype) -> Tensor:
        """Memory of the host that the device copies from and to on its own; not initialised."""
        return torch.empty(size, dtype=dtype, pin_memory=not self.is_cpu)

    def memory(self) -> tuple[int, int] | None:
        """Bytes free and bytes in all; None on a CPU, whose memory is not ours alone."""
        if self.is_cpu:
            return None
        free, total = torch.accelerator.get_memory_info(self.index)
        return int(free), int(total)

    def release(self) -> None:
        """Give memory back that only PyTorch's allocator holds."""
        if not self.is_cpu:
            torch.accelerator.empty_cache()

    # Random numbers: the default generator of this device only; torch.manual_seed would visit every kind there is.

    def seed(self, key: int) -> None:
        """Seed it from a 64-bit key; on a CPU that is torch's own generator."""
        if self.is_cpu:
            torch.default_generator.manual_seed(key)
            return
        with self._current():
            self._module().manual_seed(key)

    def rng_state(self) -> Tensor:
        """Where it stands, as bytes on the host."""
        if self.is_cpu:
            return torch.default_generator.get_state()
        state: Tensor = self._module().get_rng_state(self.as_torch())
        return state

    def set_rng_state(self, state: Tensor) -> None:
        """Go back to such a state."""
        if self.is_cpu:
            torch.default_generator.set_state(state)
        else:
            self._module().set_rng_state(state, self.as_torch())

    def signature(self) -> Mapping[str, str | bool]:
        """What has to be equal on all workers where bits have to be equal."""
        if self.is_cpu:
            return {"device": CPU}
        name = getattr(self._module(), "get_device_name", None)
        return {
            "device": self.kind,
            "device_name": str(name(self.as_torch())) if name is not None else self.kind,
            "tf32": self.kind == "cuda" and bool(against_tf32()),
        }

    def _module(self) -> Any:
        return torch.get_device_module(self.as_torch())

    @contextlib.contextmanager
    def _current(self) -> Iterator[None]:
        before = torch.accelerator.current_device_index()
        torch.accelerator.set_device_index(self.index)
        try:
            yield
        finally:
            torch.accelerator.set_device_index(before)


def against_tf32() -> tuple[str, ...]:
    """The lines that switch TF32 off where it is on; none if it is off.

    PyTorch has two interfaces for this.  A script may use either, but once the newer one was used the older refuses to
    answer, or no longer says the truth; so only the newer one is asked, and it knows what either has set.
    """
    cudnn: Any = torch.backends.cudnn  # the stub knows the older interface only
    parts = {
        "torch.backends.cuda.matmul": torch.backends.cuda.matmul,
        "torch.backends.cudnn.conv": cudnn.conv,
        "torch.backends.cudnn.rnn": cudnn.rnn,
    }
    on = [name for name, part in parts.items() if part.fp32_precision == "tf32"]
    return tuple(f"{name}.fp32_precision = 'ieee'" for name in on)


def about_index(error: BaseException, environment: Mapping[str, str] = os.environ) -> str:
    """What to say if a device refused an index that is not there, as in ``.to("cuda:3")``; else nothing."""
    if not isinstance(error, RuntimeError) or not any(words in str(error) for words in _NO_INDEX):
        return ""
    here = choose(environment={DEVICE: environment.get(DEVICE, "")})
    if here.is_cpu:
        return ""
    return f"a device with this index {_not_there(here.kind, torch.accelerator.device_count())}"


def choose(asked: str | torch.device | None = None, environment: Mapping[str, str] = os.environ) -> Device:
    """The device of this worker: what the script asks for, else $ELASTANE_DEVICE, else an accelerator, else the CPU."""
    written = str(asked) if asked is not None else environment.get(DEVICE, "")
    if not written:
        found = torch.accelerator.current_accelerator(check_available=True)
        return Device() if found is None else Device(found.type, 0)
    try:
        device = torch.device(written)
    except RuntimeError:
        raise TrainError(
            f"no such device: {written!r}; use cpu, cuda, xpu or one of these with an index"
        ) from None
    return Device() if device.type == CPU else _accelerator(device)


def _accelerator(device: torch.device) -> Device:
    here = torch.accelerator.current_accelerator(check_available=True)
    if here is None or here.type != device.type:
        there_is = "no accelerator" if here is None else f"a device of kind {here.type}"
        raise TrainError(f"the script asks for {device}, but this worker has {there_is}")
    count, index = torch.accelerator.device_count(), device.index or 0
    if index >= count:
        raise TrainError(_no_such_index(device.type, index, count))
    return Device(device.type, index)


def _no_such_index(kind: str, index: int, count: int) -> str:
    return f"{kind}:{index} {_not_there(kind, count)}"


def _not_there(kind: str, count: int) -> str:
    visible = "1 device" if count == 1 else f"{count} devices"
    return (
        f"is not there: this worker has been given {visible}, counted from {kind}:0; "
        "use job.device instead of an index"
    )
