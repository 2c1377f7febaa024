"""A communicator with NCCL's manners on the pretend GPU; its bytes travel by gloo.

What it enforces, and NCCL does too: contiguous tensors of this rank's one device; two ranks on one physical
device are refused; a collective is asynchronous on a stream of its own, and ``wait`` makes the current stream
wait and returns at once; a missing peer is a hang, not an error; ``abort`` (from any thread) ends it, leaves
garbage in the output, *completes* the stream, and makes the communicator unusable.  Connecting is collective, and
does not block: ``eager_connect_single_device`` returns at once, and the first collective waits on the host until the
communicator is there, and tells what went wrong meanwhile.
``Faults`` adds what real ones do on bad days.

Under the policy *eager*, ``wait`` itself blocks: the one deviation.
"""

from __future__ import annotations

import socket
import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import AllgatherOptions, AllToAllOptions

from elastane.train.worker.group import _ExchangeStore, _shut, _sockets
from fakegpu import build

GARBAGE = 0xA5


@dataclass(frozen=True)
class Faults:
    """What goes wrong."""

    hangs_in_connect: bool = False
    out_of_memory: bool = False
    breaks_in_connect: bool = False
    never_first: bool = False
    """The first collective hangs, though the communicator is there."""
    abort_never_returns: bool = False
    abort_does_nothing: bool = False
    """It returns, and the collective goes on hanging: XCCL's."""


class _Work:
    """As c10d's ``Work``."""

    def __init__(self, communicator: Communicator, mark: int, kept: Sequence[Tensor]) -> None:
        self._communicator, self._mark, self._kept = communicator, mark, list(kept)

    def wait(self) -> bool:
        """The current stream's wait."""
        c, extension = self._communicator, self._communicator.extension
        extension.stream_waits(c.device, extension.current_stream(c.device), c.stream, self._mark)
        self._kept = []
        return True

    def is_completed(self) -> bool:
        return bool(
            self._communicator.extension.done(self._communicator.device, self._communicator.stream, self._mark)
        )


class _ByRank:
    """A store of c10d as an ``Exchange``."""

    def __init__(self, store: dist.Store) -> None:
        self._store = store

    def put(self, rank: int, data: bytes) -> None:
        self._store.set(f"communicator/{rank}", data)

    def get(self, rank: int, timeout_s: float) -> bytes:
        return self._store.get(f"communicator/{rank}")


class Communicator:
    """What ``NcclLike`` uses of a c10d process group."""

    def __init__(self, store: dist.Store, rank: int, world: int, faults: Faults = Faults()) -> None:
        self.extension: Any = build.load()
        self.device: int = self.extension.current_device()
        self.stream = 0
        self.connecting = threading.Event()
        """Set as soon as it is about to meet the others."""
        self._store, self._rank, self._world, self._faults = store, rank, world, faults
        self._aborted = threading.Event()
        self._gloo: Any = None
        self._fds: dict[int, str] = {}
        self._addresses: dist.Store | None = None
        self._before: threading.Thread | None = None
        self._problem: Exception | None = None
        self._abort_lock = threading.Lock()

    def eager_connect_single_device(self, device: torch.device) -> None:
        """Begins to connect."""
        self.device = device.index
        self._before = threading.Thread(target=self._connect, args=(device,), daemon=True)
        self._before.start()

    def _connect(self, device: torch.device) -> None:
        try:
            self._meet_others(device)
        except (RuntimeError, torch.OutOfMemoryError) as error:
            self._problem = error

    def _meet_others(self, device: torch.device) -> None:
        torch.accelerator.set_device_index(self.device)
        self.connecting.set()
        if self._faults.out_of_memory:
            torch.empty(1 << 60, dtype=torch.uint8, device=device)
        if self._faults.hangs_in_connect:
            self._aborted.wait()
            raise RuntimeError("NCCL-like: aborted while connecting")
        if self._faults.breaks_in_connect:
            raise RuntimeError("NCCL-like: unhandled system error")
        addresses = _ExchangeStore(_ByRank(self._store), timedelta(hours=1).total_seconds())
        gloo = dist.ProcessGroupGloo(addresses, self._rank, self._world, timedelta(hours=1))
        self._addresses, self._fds = addresses, addresses.sockets()
        self._refuse_duplicates(gloo)
        self.stream = self.extension.new_stream(self.device, True)
        self._gloo = gloo

    def _wait_ready(self) -> None:
        """As ``NCCLComm::waitReady``: whoever is first waits, on the host."""
        before, self._before = self._before, None
        if before is None:
            return
        while before.is_alive() and not self._aborted.is_set():
            before.join(0.01)
        if self._aborted.is_set():
            raise RuntimeError("NCCL-like: communicator was aborted")
        if self._problem is not None:
            raise self._problem
        if self._faults.never_first:
            self._aborted.wait()
            raise RuntimeError("NCCL-like: communicator was aborted")

    def _refuse_duplicates(self, gloo: Any) -> None:
        mine = torch.tensor([zlib.crc32(socket.gethostname().encode()), self.extension.physical(self.device)])
        everyone = torch.empty(2 * self._world, dtype=torch.int64)
        gloo._allgather_base(everyone, mine, AllgatherOptions()).wait()
        pairs = [tuple(pair) for pair in everyone.view(-1, 2).tolist()]
        if len(set(pairs)) < len(pairs):
            raise RuntimeError(f"NCCL-like: Duplicate GPU detected: ranks on devices {pairs}")

    def allreduce(self, tensors: list[Tensor], _options: Any = None) -> _Work:
        seen = [self.extension.device_side(tensor) for tensor in tensors]
        return self._launch(tensors, tensors, lambda: [self._gloo.allreduce([each]).wait() for each in seen])

    def _allgather_base(self, output: Tensor, tensor: Tensor, _options: Any = None) -> _Work:
        out, mine = self.extension.device_side(output), self.extension.device_side(tensor)
        options = AllgatherOptions()
        return self._launch(
            [output, tensor], [output], lambda: self._gloo._allgather_base(out, mine.clone(), options).wait()
        )

    def alltoall_base(
        self, output: Tensor, tensor: Tensor, out: list[int], into: list[int], _options: Any = None
    ) -> _Work:
        there, here = self.extension.device_side(output), self.extension.device_side(tensor)
        options = AllToAllOptions()
        return self._launch(
            [output, tensor], [output], lambda: self._gloo.alltoall_base(there, here, out, into, options).wait()
        )

    def _launch(self, tensors: Sequence[Tensor], outputs: Sequence[Tensor], run: Callable[[], Any]) -> _Work:
        """The collective on this communicator's stream, after what the current stream has been given so far."""
        self._wait_ready()
        self._check(tensors)
        here = self.extension.current_stream(self.device)
        self.extension.stream_waits(self.device, self.stream, here, self.extension.tip(self.device, here))

        def body() -> None:
            try:
                if not self._aborted.is_set():
                    run()
            except RuntimeError:  # a broken peer: kernels of NCCL spin on, and only abort ends them
                self._aborted.wait()
            if self._aborted.is_set():
                for output in outputs:
                    self.extension.device_side(output).view(-1).view(torch.uint8).fill_(GARBAGE)

        return _Work(self, self.extension.launch(self.device, self.stream, body), tensors)

    def _check(self, tensors: Sequence[Tensor]) -> None:
        if self._aborted.is_set():
            raise RuntimeError("NCCL-like: communicator was aborted")
        for tensor in tensors:
            if tensor.device.type != "fakegpu":
                raise RuntimeError(f"No backend type associated with device type {tensor.device.type}")
            if tensor.device.index != self.device:
                raise RuntimeError(f"NCCL-like: the communicator is of device {self.device}")
            if not tensor.is_contiguous():
                raise RuntimeError("NCCL-like: Tensors must be contiguous")

    def abort(self) -> None:
        """As ncclCommAbort: at once, from any thread."""
        if self._faults.abort_never_returns:
            threading.Event().wait()
        if self._faults.abort_does_nothing:
            return
        self._aborted.set()
        with self._abort_lock:
            now = _sockets()
            for fd, name in self._fds.items():
                if now.get(fd) == name:
                    _shut(fd)
