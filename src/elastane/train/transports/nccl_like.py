"""``NcclLike`` sums over a communicator with NCCL's manners (NCCL, RCCL, XCCL; in tests a pretend one).

Such a communicator is fast and rude: a collective returns before it has begun, a dead peer is a hang without an
error, and an abort lets the stream go on as if all were well, over garbage.  Hence the rules of this class:

* It is built in the background while another transport is in use; its first collective comes after ``enter``.
* The flag ``aborted`` is set before the communicator is aborted.  A host that has waited looks at it before it
  believes.
* It is made without blocking, so that its making returns at once and whatever is asked of it first waits until it is
  connected.  Nobody but ``connect`` may be the first: it makes a small sum, on a stream of its own, and waits for it.
* Every wait of the host has a deadline of ours, at which the communicator is aborted.
* An abort runs in a thread of its own.  If it does not come back in time, no thread of this process can be
  trusted to reach the device again: the worker is told to give itself up, and the others go on without it.
* An abort that comes back may have ended nothing (XCCL's does not).  So no wait of the host for what was given to the
  device before it may outlast another deadline; else the worker gives itself up as well.
* It is never destroyed, only aborted: destroying waits for peers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch._C._distributed_c10d import AllgatherOptions, AllreduceOptions, AllToAllOptions

from elastane.train.device import Device, Mark
from elastane.train.errors import MembershipChanged
from elastane.train.transports.alarm import Alarm
from elastane.train.transports.contract import NoTransport, Pending, Transport, TransportKind

GiveUp = Callable[[str], None]
"""Ends this worker, for the reason given; not expected to return."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long what may take."""

    connect_s: float = 60.0
    collective_s: float = 600.0
    abort_s: float = 5.0
    rest_s: float = 60.0
    """Until the device has ended, after an abort, what it was given before: the collective, and a step's work."""


class _Sum(Pending):
    def __init__(self, transport: NcclLike, work: Any, kept: Sequence[Tensor]) -> None:
        self._transport, self._work, self._kept = transport, work, tuple(kept)

    def order(self) -> None:
        self._work.wait()  # the current stream's wait: the host is back at once

    def finish(self) -> None:
        self._transport.finish(self._work)
        self._kept = ()


class NcclLike(Transport):
    """One communicator; ``backend`` is a process group of c10d that has not connected yet."""

    kind: ClassVar[TransportKind] = TransportKind.NCCL_LIKE

    def __init__(
        self,
        backend: Any,
        rank: int,
        world: int,
        device: Device,
        give_up: GiveUp,
        patience: Patience = Patience(),
        store: object = None,
    ) -> None:
        """``store`` is kept for the communicator, which itself holds only its C++ half."""
        super().__init__(rank, world)
        self._store = store
        self._backend = backend
        self._device = device
        self._give_up = give_up
        self._patience = patience
        self._connected = self._entered = self._aborted = self._overdue = False
        self._lock = threading.Lock()
        self._abort_ended = threading.Event()
        self._nobody_waits = threading.Event()
        self._nobody_waits.set()
        self._alarm = Alarm(self._ring)

    @property
    def aborted(self) -> bool:
        """Whether ``abort`` was called."""
        return self._aborted

    def connect(self) -> None:
        """Meet the others: seconds, in a background thread; ``abort`` ends it."""
        self._device.use()
        problem = ""
        try:
            with self._alarm.within(self._patience.connect_s):
                self._backend.eager_connect_single_device(self._device.as_torch())
                self.check()  # nobody knows what an aborted one does when it is asked for something
                found = self._first_sum()
                problem = "" if found == self.world else "the first sum of a communicator was wrong"
        except torch.OutOfMemoryError:
            problem = "not enough memory on the device for a communicator"
        except MembershipChanged:
            problem = "aborted"
        except RuntimeError as error:
            problem = (str(error) or "no reason given").splitlines()[0]
        if self._overdue:
            raise NoTransport(f"a communicator was not connected within {self._patience.connect_s:g} s")
        self.check()
        if problem:
            self.abort()
            raise NoTransport(problem)
        self._connected = True

    def _first_sum(self) -> float:
        """The number of members, as they add it up on a stream that training does not use."""
        stream = self._device.new_stream()
        if stream is None:
            raise NoTransport("a communicator needs a device")
        with stream:
            one = torch.ones(1, device=self._device.as_torch())
            self._backend.allreduce([one], AllreduceOptions()).wait()
            return float(one)

    def _ring(self) -> None:
        if self._abort_ended.is_set() and not self._nobody_waits.is_set():
            self._give_up_on_device()
        self._overdue = True
        self.abort()

    def _give_up_on_device(self) -> None:
        self._give_up(
            f"a broken collective was ended, but the device did not go on within {self._patience.rest_s:g} s"
        )

    def enter(self) -> None:
        """Collectives may begin: whatever the device was given before has ended."""
        if not self._connected:
            raise RuntimeError("a communicator was entered before it had connected")
        self._device.synchronize()
        self.check()
        self._entered = True

    def reduce(self, vector: Tensor) -> Pending:
        """Begins to sum a vector over all members with the communicator."""
        return self._begin([vector], lambda: self._backend.allreduce([vector], AllreduceOptions()))

    def gather(self, output: Tensor, tensor: Tensor) -> Pending:
        """Begins to gather equal blocks of all members with the communicator."""
        return self._begin(
            [output, tensor], lambda: self._backend._allgather_base(output, tensor, AllgatherOptions())
        )

    def swap(
        self, output: Tensor, tensor: Tensor, output_splits: Sequence[int], input_splits: Sequence[int]
    ) -> Pending:
        """Begins to exchange blocks between all members with the communicator."""
        splits = list(output_splits), list(input_splits)
        return self._begin(
            [output, tensor], lambda: self._backend.alltoall_base(output, tensor, *splits, AllToAllOptions())
        )

    def finish(self, work: Any) -> None:
        """Wait for a collective on the host, and believe it only if nobody has aborted."""
        with self._host_waits():
            work.wait()
            self._trusted(self._device.mark().wait)
        self.check()

    def confirm(self, moment: Mark) -> None:
        """Wait for a moment behind a collective, no longer than our patience lasts."""
        with self._host_waits():
            self._trusted(moment.wait)
        self.check()

    @contextmanager
    def _host_waits(self) -> Iterator[None]:
        """Waiting ends: at our patience's end by an abort, and after an abort with this process."""
        self._nobody_waits.clear()  # before the question below: an abort that comes later looks here
        patience = self._patience
        try:
            with self._alarm.within(patience.rest_s if self._aborted else patience.collective_s):
                yield
        finally:
            self._nobody_waits.set()

    def abort(self) -> None:
        """Let the device go on; from any thread, even while connecting."""
        with self._lock:
            if self._aborted:
                return
            self._aborted = True
        threading.Thread(target=self._see_abort_through, name="abort", daemon=True).start()

    def wait_aborted(self, timeout_s: float) -> bool:
        """Whether the abort has ended by then: only after that may others begin on this device.

        What the current stream was given has ended, too.
        """
        if not self._abort_ended.wait(timeout_s):
            return False
        with suppress(MembershipChanged), self._host_waits():
            self._trusted(self._device.mark().wait)
        return True

    def close(self) -> None:
        """Abort: who destroys a communicator waits for its peers."""
        self.abort()
        self._alarm.close()

    def _see_abort_through(self) -> None:
        aborting = threading.Thread(target=self._abort_backend, name="abort-communicator", daemon=True)
        aborting.start()
        if not self._abort_ended.wait(self._patience.abort_s):
            self._give_up(f"a broken collective could not be ended within {self._patience.abort_s:g} s")
        elif not self._nobody_waits.wait(self._patience.rest_s):
            self._give_up_on_device()

    def _abort_backend(self) -> None:
        try:
            self._backend.abort()
        except RuntimeError as error:
            self._give_up(
                f"a broken collective could not be ended: {(str(error) or 'no reason').splitlines()[0]}"
            )
            return
        self._abort_ended.set()

    def _begin(self, tensors: Sequence[Tensor], issue: Callable[[], Any]) -> Pending:
        self.check()
        if not self._entered:
            raise RuntimeError("a collective before the boundary: the communicator has not been entered")
        for tensor in tensors:
            if tensor.device != self._device.as_torch() or not tensor.is_contiguous():
                raise ValueError(f"a contiguous tensor on {self._device} is needed, not one on {tensor.device}")
        return _Sum(self, self._trusted(issue), tensors)

    def _trusted(self, call: Callable[[], Any]) -> Any:
        """What goes wrong with a communicator is a broken step; what goes wrong with a device is a lost worker."""
        try:
            return call()
        except torch.AcceleratorError as error:
            self._give_up(f"the device has failed: {(str(error) or 'no reason given').splitlines()[0]}")
            raise
        except RuntimeError as error:
            problem = (str(error) or "broken").splitlines()[0]
        self.abort()
        raise MembershipChanged(problem)
