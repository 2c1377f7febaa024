"""Several processes with a pretend device each, forked by a test before it has initialised one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist

from elastane.train.errors import MembershipChanged


class Meeting:
    """Where the ranks of one group find each other; an ``Exchange`` of the training library."""

    def __init__(self, folder: Path, world: int) -> None:
        self._folder, self._world = folder, world
        self._stores: dict[str, dist.FileStore] = {}

    def store(self, name: str) -> dist.FileStore:
        """A store of this process for one purpose."""
        if name not in self._stores:
            self._stores[name] = dist.FileStore(str(self._folder / name), -1)
            self._stores[name].set_timeout(timedelta(seconds=30))
        return self._stores[name]

    def put(self, rank: int, data: bytes) -> None:
        self.store("addresses").set(str(rank), data)

    def get(self, rank: int, timeout_s: float) -> bytes:
        store = self.store("addresses")
        try:
            store.wait([str(rank)], timedelta(seconds=timeout_s))
        except RuntimeError:
            raise MembershipChanged("a member did not come") from None
        return store.get(str(rank))

    def reached(self, point: str, rank: int) -> None:
        """Tell the others that this rank has come to a point."""
        self.store("points").set(f"{point}-{rank}", "1")

    def wait_for(self, point: str, ranks: Sequence[int]) -> None:
        """Until these ranks have come there."""
        self.store("points").wait([f"{point}-{rank}" for rank in ranks], timedelta(seconds=30))


def run(world: int, body: Callable[[int, Meeting], Any], devices: Sequence[int] | None = None) -> list[Any]:
    """What ``body(rank, meeting)`` returned in each process; None for one that died.  An exception is the test's."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        children = []
        for rank in range(world):
            pid = os.fork()
            if not pid:
                os.environ["FAKEGPU_COUNT"] = str(max(world, 2))
                os.environ["FAKEGPU_VISIBLE_DEVICES"] = str(devices[rank] if devices else rank)
                _live(folder / f"result-{rank}", body, rank, Meeting(folder, world))
            children.append(pid)
        try:
            for pid in children:
                os.waitpid(pid, 0)
        finally:
            for pid in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return [_result(folder / f"result-{rank}") for rank in range(world)]


def die() -> None:
    """End this process at once, as ``kill -9`` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def _live(path: Path, body: Callable[[int, Meeting], Any], rank: int, meeting: Meeting) -> None:
    signal.alarm(60)
    try:
        path.write_text(json.dumps({"result": body(rank, meeting)}), encoding="utf-8")
    except BaseException:
        path.write_text(json.dumps({"problem": traceback.format_exc()}), encoding="utf-8")
    os._exit(0)


def _result(path: Path) -> Any:
    if not path.exists():
        return None
    values = json.loads(path.read_text(encoding="utf-8"))
    if "problem" in values:
        raise AssertionError(values["problem"])
    return values["result"]
