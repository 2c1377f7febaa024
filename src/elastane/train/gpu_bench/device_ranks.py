"""Runs a function in processes with a device each, forked from one that has initialised none, as workers are."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch._C._distributed_c10d import FileStore

from elastane.kit.atomic_files import write_atomically
from elastane.train.coordinator.device_locks import visible
from elastane.train.coordinator.fork_safety import what_forbids_forking
from elastane.train.coordinator.script_runner import set_death_signal
from elastane.train.device import Device, choose
from elastane.train.errors import MembershipChanged, TrainError
from elastane.train.transports import NcclLike, Staged, nccl
from elastane.train.worker.group import Group

_LOOK_S = 0.02


class Unfinished(TrainError):
    """A process of a check failed, or took too long."""


class _Addresses:
    """Where the ranks of a gloo group find each other."""

    def __init__(self, store: FileStore) -> None:
        self._store = store

    def put(self, rank: int, data: bytes) -> None:
        self._store.set(str(rank), data)  # type: ignore[arg-type]  # the stub knows text only

    def get(self, rank: int, timeout_s: float) -> bytes:
        try:
            self._store.wait([str(rank)], timedelta(seconds=timeout_s))
        except RuntimeError:
            raise MembershipChanged("a rank did not come") from None
        return bytes(self._store.get(str(rank)))


@dataclass
class Rank:
    """One process of a check."""

    rank: int
    world: int
    device: Device
    folder: Path
    patience_s: float
    began_s: float
    """When this process first turned to its device (``time.perf_counter``)."""
    given_up: str = ""

    def store(self, name: str) -> FileStore:
        """A store that all ranks share under a name."""
        store = FileStore(str(self.folder / name), -1)
        store.set_timeout(timedelta(seconds=self.patience_s))
        return store

    def group(self, name: str) -> Group:
        """A gloo group of all ranks."""
        return Group(self.rank, self.world, _Addresses(self.store(name)), self.patience_s, "127.0.0.1")

    def staged(self, name: str) -> Staged:
        """A staged transport of all ranks, over a gloo group of its own."""
        return Staged(self.group(name), self.device)

    def communicator(self, name: str) -> NcclLike:
        """A communicator of all ranks, connected and entered."""
        store = self.store(name)
        backend = nccl.process_group(self.device.kind, store, self.rank, self.world)
        made = NcclLike(backend, self.rank, self.world, self.device, self._give_up, store=store)
        made.connect()
        made.enter()
        return made

    def meet(self, point: str) -> None:
        """Wait until all ranks have come here."""
        self.came(point)
        self.wait_for(point, range(self.world))

    def came(self, point: str) -> None:
        """Tell the others that this rank has come to a point."""
        self.store("points").set(f"{point}-{self.rank}", "1")

    def wait_for(self, point: str, ranks: Sequence[int]) -> None:
        """Until these ranks have come there."""
        self.store("points").wait([f"{point}-{rank}" for rank in ranks], timedelta(seconds=self.patience_s))

    def zeros(self, megabytes: float) -> torch.Tensor:
        """A float32 vector on the device."""
        return torch.zeros(max(1, int(megabytes * 2**18)), device=self.device.as_torch())

    def _give_up(self, why: str) -> None:
        self.given_up = why


def run(devices: Sequence[str], body: Callable[[Rank], Any], patience_s: float) -> list[Any]:
    """What ``body`` returned on each device; None for a process that was killed.

    Raises:
        Unfinished: one raised an error, or did not end in time.
    """
    problem = what_forbids_forking()
    if problem:
        raise Unfinished(f"this process {problem}: nothing can be forked from it")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pids = [_start(folder, devices, rank, body, patience_s) for rank in range(len(devices))]
        late = _wait(pids, patience_s)
        answers = [_answer(folder / f"answer-{rank}") for rank in range(len(devices))]
    if late:
        raise Unfinished(f"a process did not end within {patience_s:g} s")
    return answers


def _start(
    folder: Path, devices: Sequence[str], rank: int, body: Callable[[Rank], Any], patience_s: float
) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    try:
        set_death_signal()
        os.environ.update(visible([devices[rank]]))
        nccl.prepare(os.environ)
        began_s = time.perf_counter()
        device = choose()
        device.use()
        answer = {"value": body(Rank(rank, len(devices), device, folder, patience_s, began_s))}
    except BaseException as error:  # whatever a driver may raise
        lines = str(error).strip().splitlines()
        answer = {"problem": f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]}
    write_atomically(folder / f"answer-{rank}", json.dumps(answer))
    os._exit(0)


def _wait(pids: Sequence[int], patience_s: float) -> bool:
    """Whether somebody had to be ended."""
    deadline, left = time.monotonic() + patience_s, set(pids)
    while left and time.monotonic() < deadline:
        left -= {pid for pid in left if os.waitpid(pid, os.WNOHANG)[0]}
        time.sleep(_LOOK_S)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return bool(left)


def _answer(path: Path) -> Any:
    if not path.exists():
        return None
    answer = json.loads(path.read_text(encoding="utf-8"))
    if "problem" in answer:
        raise Unfinished(answer["problem"])
    return answer["value"]
